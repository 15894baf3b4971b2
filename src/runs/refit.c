/*
 * A refit: a new version of a model by its definition, from one reading of its source.
 *
 * The rows are first labelled with the deployed version, which shows their drift.  Then they are
 * fitted from its centroids and from new ones, and labelled with the version that is deployed
 * at the end.  Only a new scale, and rows that have moved so far that they lose digits, need a
 * second reading, because the engine holds rows as they are compared.
 */
#include "postgres.h"

#include <float.h>
#include <math.h>

#include "catalog/pg_type.h"
#include "common/shortest_dec.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "alloc.h"
#include "assign.h"
#include "defined_call.h"
#include "definition.h"
#include "drift.h"
#include "exact.h"
#include "fitted.h"
#include "id_parts.h"
#include "labels_before.h"
#include "matching.h"
#include "model_cache.h"
#include "model_writes.h"
#include "nearest.h"
#include "output_table.h"
#include "owner.h"
#include "refit.h"
#include "run.h"
#include "scorer.h"
#include "selection.h"
#include "target.h"
#include "versions.h"

/* The state of a refit. */
typedef struct Refit
{
	const GkRefitSpec *spec;
	GkRefitResult *result;
	MemoryContext context;		/* of the result */
	GkOwner		owner;
	Relation	relation;
	Jsonb	   *definition;
	GkDefinedCall defined;
	int			nest_level;		/* of what functions of the source set in the current reading */
	const GkModel *deployed;
	GkThen		then;

	/* whether the definition is still that of the deployed version */
	bool		same_features;	/* and metric */
	bool		same_scale;
	bool		same_k;
	bool		has_points;		/* its centroids mean something among the rows of the fit */
	bool		is_far;			/* rows need another shift */
	bool		is_beyond;		/* its centroids are out of range among the rows of the fit */

	GkCall		call;			/* the current reading */
	GkFirstReading first;		/* for the second one */
	GkPrepared	prepared;
	double	   *points;			/* of the deployed version, by place, as rows are compared now */
	bool	   *has_rows;		/* by place: in its own scale, rows belong to a cluster of it */
	int32	   *start_places;	/* of the centroids from which the fit starts, or NULL */
	bool	   *is_moved;		/* by place: after a fit from there, see GkFit */
	bool	   *continues;		/* by place: a cluster of the new version continues it */
	GkLabelsBefore *labels_before;	/* the places that it gave the rows */
	GkDrift		drift;
	bool		has_drift;
	char	  **names;			/* of the new version's clusters, by place; NULL = none */
	GkDraft		draft;
	Tuplestorestate *labels;	/* of the version that will be deployed; NULL = none are written */
	GkArguments asked;			/* where they go */
	bool		is_labelled;	/* they are written, or not to be */
} Refit;

/* Reads the committed deployed version. */
static void
read_deployed(Refit *refit)
{
	GkHeads    *heads;
	GkModelRow	row;

	PushActiveSnapshot(GetLatestSnapshot());
	refit->deployed = gk_read_model(refit->spec->model, 0, refit->context);
	heads = gk_begin_heads(refit->relation);
	gk_find_head_or_fail(heads, refit->relation, 0);
	gk_open_row(&row, refit->relation, gk_head(heads));
	gk_read_then(&row, &refit->then);
	gk_end_heads(heads);
	PopActiveSnapshot();
}

/* Sets an argument to a text, if there is one. */
static void
set_text(GkDefinedCall *defined, const char *name, const char *text)
{
	if (text != NULL)
		gk_set_defined(defined, name, CStringGetTextDatum(text));
}

/*
 * The clusters that the deployed version was asked for, if the definition has candidates, or else
 * has: it may have found fewer.  Only candidates count, for what its row says may be the choice of
 * a role that can merely write it.
 */
static int64
asked_before(const Refit *refit)
{
	const GkDefinedCall *defined = &refit->defined;
	GkCandidateSpec spec;

	if (!gk_read_candidates(defined->arguments, gk_defined_place(defined, "k_candidates"),
							"k_candidates", &spec))
		return refit->deployed->k;
	for (int i = 0; i < spec.count; i++)
		if (spec.candidates[i] == refit->then.k_asked && spec.candidates[i] > refit->deployed->k)
			return spec.candidates[i];
	return refit->deployed->k;
}

/*
 * Makes the arguments of the fit.  What was chosen automatically stays the same; a labels table
 * that had to be new then is the model's now.
 */
static void
define(Refit *refit)
{
	const GkRefitSpec *spec = refit->spec;
	GkDefinedCall *defined = &refit->defined;
	const char *mode = gk_definition_text(refit->definition, "labels_mode");

	gk_define_call(refit->relation, refit->definition, defined);
	if (!gk_is_defined(defined, "source"))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("model \"%s\" has no source", gk_model_name(refit->relation)),
				 errdetail("Its definition does not name one.")));
	/* those of a version may be the choice of a role that can merely write its row */
	if (!gk_is_defined(defined, "features"))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the definition of model \"%s\" names no features",
						gk_model_name(refit->relation)),
				 errhint("Name them with gkmeans_alter_model().")));
	if (!gk_is_defined(defined, "k"))
	{
		gk_set_defined(defined, "k", Int64GetDatum(asked_before(refit)));
		refit->definition = gk_define_k(refit->definition, asked_before(refit));
	}
	if (mode == NULL || strcmp(mode, "error") == 0)
		set_text(defined, "labels_mode", "merge");
	set_text(defined, "labels_table", spec->labels_table);
	set_text(defined, "labels_mode", spec->labels_mode);
}

/* True if the features that a definition names are those of a model. */
static bool
has_features(const GkModel *model, const List *features)
{
	int			count = model->array_column != NULL ? 1 : model->dimension;
	int			i = 0;
	ListCell   *cell;

	if (list_length(features) != count)
		return false;
	foreach(cell, features)
		if (strcmp(lfirst(cell), model->array_column != NULL ? model->array_column
				   : model->features[i++]) != 0)
			return false;
	return true;
}

/* True if rows are compared as the deployed version does. */
static bool
keeps_scale(const Refit *refit)
{
	return refit->same_features && refit->same_scale && !refit->spec->rescale && !refit->is_far;
}

/* How a definition has features scaled, of which 'auto' is what it stands for. */
static const char *
scale_of(const char *word, int features)
{
	if (word != NULL && strcmp(word, "auto") == 0)
		return features > 1 ? "standard" : "none";
	return word != NULL ? word : "none";
}

/* Determines what the definition has in common with the deployed version. */
static void
compare_definition(Refit *refit)
{
	const GkModel *model = refit->deployed;
	GkArguments arguments;
	const char *scale;
	int			features;

	gk_read_arguments(refit->defined.arguments, 1, &arguments);
	refit->same_features = has_features(model, arguments.source.features) &&
		arguments.fit.metric == model->metric;
	features = list_length(arguments.source.features);
	scale = scale_of(gk_definition_text(refit->definition, "scale"), features);
	refit->same_scale = strcmp(scale, scale_of(refit->then.scale, features)) == 0;
	/* it may have found fewer clusters than it was asked for */
	refit->same_k = arguments.fit.k == model->k || arguments.fit.k == refit->then.k_asked;
	/* from another origin, rows lie in other directions */
	refit->has_points = model->metric != GK_COSINE || keeps_scale(refit) ||
		(refit->same_scale && (model->factor != NULL) == (strcmp(scale, "none") != 0));
}

/* Raises an error if a scale is to be found anew, but came with an import, so nobody knows how. */
static void
check_scale(const Refit *refit)
{
	if (keeps_scale(refit) || refit->deployed->factor == NULL || refit->then.scale != NULL ||
		gk_definition_text(refit->definition, "scale") != NULL)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the scale of model \"%s\" cannot be found anew",
					gk_model_name(refit->relation)),
			 errdetail("It was imported, and the definition of the model does not name one."),
			 errhint("Name one with gkmeans_alter_model, such as '{\"scale\": \"standard\"}'.")));
}

/* True if a fit by the definition can be compared with the deployed version. */
static bool
is_comparable(const Refit *refit)
{
	return refit->same_features && refit->same_k && refit->has_points && !refit->is_beyond;
}

/* Begins: becomes the owner, locks the model, and determines what to do. */
static void
begin_refit(Refit *refit, int version)
{
	const GkRefitSpec *spec = refit->spec;

	refit->context = refit->first.context = CurrentMemoryContext;
	gk_open_as_owner(spec->model, &refit->relation, &refit->owner);
	if (spec->deploy != GK_DEPLOY_NEVER)
		gk_check_published(spec->model, CMD_UPDATE);
	if (spec->keep >= 0)
		gk_check_published(spec->model, CMD_DELETE);
	refit->definition = gk_model_definition(refit->relation);
	gk_check_definition_is_seen(refit->relation);
	gk_use_definition_path(refit->definition);
	/* names that others give its clusters by UPDATE would be lost: let them wait */
	gk_lock_deployed(refit->relation);
	gk_check_deployed_is_seen(refit->relation);
	read_deployed(refit);
	define(refit);
	compare_definition(refit);
	check_scale(refit);
	gk_begin_draft(&refit->draft);
	if (version == 0)
	{
		gk_draft_begun(&refit->draft);
		gk_draft_text(&refit->draft, GK_MODEL_STARTED_BY,
					  GetUserNameFromId(refit->owner.caller, false));
		gk_draft_text(&refit->draft, GK_MODEL_NOTE, spec->note);
	}
	gk_draft_set(&refit->draft, GK_MODEL_DEFINITION, JsonbPGetDatum(refit->definition));
	refit->result->version = version != 0 ? version : gk_next_version(spec->model);
	refit->result->inertia = refit->result->inertia_before = NAN;
	refit->result->improvement = refit->result->psi = NAN;
	refit->result->moved = -1;
	refit->nest_level = NewGUCNestLevel();
}

/* Undoes what functions of the source have set, before its rows are read again. */
static void
forget_settings(Refit *refit)
{
	AtEOXact_GUC(false, refit->nest_level);
	refit->nest_level = NewGUCNestLevel();
}

/* True if rows are compared by their directions from zero, so that no shift is possible. */
static bool
is_by_direction(const GkModel *model)
{
	return model->metric == GK_COSINE && model->factor == NULL;
}

/* Has rows compared as the deployed version does, and their ranges kept, as any shift has it. */
static void
compare_as_deployed(Refit *refit)
{
	const GkModel *model = refit->deployed;

	gk_call_compare_as(&refit->call, model);
	if (model->shift == NULL && !is_by_direction(model))
		refit->call.arguments.source.shift = gk_allocate_zero(model->dimension, sizeof(double));
}

/*
 * True if float32 does not tell the values of a feature apart, which all lie far from where it is
 * finest.  In a scale, what is small beside the values of then is not told apart in any case.
 */
static bool
is_feature_far(const Refit *refit, int j)
{
	const GkModel *model = refit->deployed;
	const GkRows *rows = &refit->call.rows;
	GkFeatureClass feature_class = gk_feature_class(refit->call.source, j);
	double		origin = rows->shift[j] + (model->factor != NULL ? model->offset[j] : 0.0);
	double		farthest = Max(fabs(rows->least[j] - origin), fabs(rows->greatest[j] - origin));
	double		width = rows->greatest[j] - rows->least[j];

	if (model->factor != NULL ? model->factor[j] == 0.0 :
		(feature_class == GK_FEATURE_EXACT && rows->shift[j] == 0.0) ||
		(feature_class == GK_FEATURE_INTEGER && farthest <= 2.0 / FLT_EPSILON))
		return false;
	/* one value in all rows is a centroid as it is */
	if (model->factor == NULL && width == 0.0 &&
		origin + (float) (rows->least[j] - origin) != rows->least[j])
		return true;
	if (refit->then.deviations != NULL && (model->factor != NULL || width == 0.0))
		width = Max(refit->then.deviations[j], width);
	return width > 0.0 && !gk_real_tells_apart(farthest, width);
}

/*
 * Looks whether rows lie too far from the shift of the deployed version.  Distances do not depend
 * on it, so it is found anew; but where there is a scale, that would be as well.
 */
static void
find_far(Refit *refit)
{
	const GkModel *model = refit->deployed;
	int			j = 0;

	if (!keeps_scale(refit) || is_by_direction(model) || refit->call.rows.least == NULL)
		return;
	while (j < model->dimension && !is_feature_far(refit, j))
		j++;
	if (j == model->dimension)
		return;
	refit->is_far = model->factor == NULL;
	if (!refit->is_far)
		ereport(WARNING,
				(errcode(ERRCODE_WARNING),
				 errmsg("the values of feature \"%s\" have moved so far that they lose digits",
						gk_feature_name(model, j)),
				 errdetail("They are rounded in the scale of version %d.", model->version),
				 errhint("Refit the model with rescale => true.")));
}

/* Where changes go: those of other labels than the definition's, and of other modes, nowhere. */
static const char *
changes_table(const Refit *refit)
{
	const GkRefitSpec *spec = refit->spec;

	if (spec->changes_table != NULL)
		return spec->changes_table;
	if ((spec->labels_table != NULL &&
		 !gk_is_defined_labels_table(refit->definition, spec->labels_table)) ||
		(spec->labels_mode != NULL && refit->call.arguments.if_exists != GK_EXISTS_MERGE))
		return NULL;
	return gk_definition_text(refit->definition, "changes_table");
}

/* Reads the rows, prepared as for the deployed version or as the definition says. */
static void
read_rows(Refit *refit, bool as_deployed)
{
	GkCall	   *call = &refit->call;

	gk_call_open(call);
	gk_progress_model(gk_quoted_model_name(RelationGetRelid(refit->relation)));
	gk_read_arguments(refit->defined.arguments, 1, &call->arguments);
	gk_call_track_changes(call, changes_table(refit));
	if (as_deployed)
		compare_as_deployed(refit);
	call->arguments.fit.for_model = true;
	call->arguments.of_model = true;
	call->arguments.source.first = &refit->first;
	gk_call_read(call);
	gk_call_check_rows(call);
	/* each time: a function of the source may return other arrays than before */
	if (refit->same_features)
		gk_call_check_as(call, refit->deployed);
	if (as_deployed)
		find_far(refit);
	/* with another scale or shift, what is said of the rows is said when they are read again */
	call->arguments.fit.labels_only = as_deployed && !keeps_scale(refit);
	gk_check_model_size(call);
	gk_prepare(call->job, &call->arguments.fit, &refit->prepared);
	refit->result->rows = call->arguments.fit.rows;
}

/* Notes which clusters of the deployed version have rows, from all in the order of ties. */
static void
note_rows(Refit *refit, const GkCluster *now)
{
	const GkModel *model = refit->deployed;

	refit->has_rows = MemoryContextAlloc(refit->context, model->k * sizeof(bool));
	for (int i = 0; i < model->k; i++)
		refit->has_rows[gk_cluster_at(model, i)] = now[i].weight > 0.0;
}

/* Labels the rows with the deployed version, and computes their drift. */
static void
find_drift(Refit *refit)
{
	const GkModel *model = refit->deployed;
	GkCall	   *call = &refit->call;
	GkCluster  *now = gk_allocate(model->k, sizeof(GkCluster));
	MemoryContext before;

	gk_progress_phase(GK_PHASE_LABELLING);
	refit->result->inertia_before =
		gk_fit_label(call->job, &call->arguments.fit, &refit->prepared,
					 call->arguments.fit.points, model->k, now);
	note_rows(refit, now);
	before = MemoryContextSwitchTo(refit->context);
	gk_find_drift(model, &refit->then, now, &call->arguments.fit, &refit->prepared, &call->rows,
				  &refit->drift);
	gk_draft_json(&refit->draft, GK_MODEL_DRIFT, gk_drift_json(&refit->drift));
	MemoryContextSwitchTo(before);
	refit->has_drift = true;
	refit->result->psi = refit->drift.psi;
	gk_call_describe_model(call, model);
}

/* True if so little drifted that nothing is to be fitted. */
static bool
is_quiet(const Refit *refit)
{
	return refit->has_drift && refit->same_scale && refit->same_k &&
		refit->drift.psi < refit->spec->only_if_drift;
}

/*
 * A coordinate of the deployed version, as rows were compared and in the units of the features, as
 * rows are compared now.  Far from zero, a double rounds the latter; where it does not, as in
 * versions that were imported, it is the coordinate that was meant.  In the same scale, the former
 * stays as it is.
 */
static double
in_new_scale(const Refit *refit, int j, double value, double centroid)
{
	const GkModel *model = refit->deployed;
	const GkPrepared *prepared = &refit->prepared;
	double		offset = model->offset != NULL ? model->offset[j] : 0.0;
	double		shift = model->shift != NULL ? model->shift[j] : 0.0;
	double		factor = model->factor != NULL ? model->factor[j] : 1.0;
	double		moved = (offset - prepared->offset[j]) +
		(shift - refit->call.arguments.fit.shift[j]);

	if (!(factor > 0.0) || (centroid - shift - offset) * factor == value)
		return (centroid - refit->call.arguments.fit.shift[j] - prepared->offset[j]) *
			prepared->factor[j];
	return value * (prepared->factor[j] / factor) + moved * prepared->factor[j];
}

/*
 * Puts the centroids of the deployed version in cluster order; directions stay in a new scale.
 * Others may lie so far from the rows that they are out of range there.
 */
static void
keep_points(Refit *refit)
{
	const GkModel *model = refit->deployed;
	int			d = model->dimension;
	bool		is_moved = !keeps_scale(refit) && model->metric == GK_EUCLIDEAN;

	refit->points = gk_allocate(model->k * (int64) d, sizeof(double));
	for (int i = 0; i < model->k; i++)
	{
		int64		at = gk_cluster_at(model, i) * (int64) d;
		double	   *point = refit->points + at;

		CHECK_FOR_INTERRUPTS();
		gk_unpack_centroid(model->packed, d, i, point);
		for (int j = 0; is_moved && j < d; j++)
		{
			point[j] = in_new_scale(refit, j, point[j], refit->then.centroids[at + j]);
			refit->is_beyond |= !gk_is_real(point[j]);
		}
	}
}

/* Copies numbered points. */
static void
copy_points(const double *points, int dimension, const int32 *numbers, int count, double *copy)
{
	for (int i = 0; i < count; i++)
		memcpy(copy + i * (int64) dimension, points + numbers[i] * (int64) dimension,
			   dimension * sizeof(double));
}

/* The places of a version in the order of ties, which is that of its labels. */
static void
list_in_ties(const GkModel *model, int32 *places)
{
	for (int i = 0; i < model->k; i++)
		places[i] = gk_cluster_at(model, i);
}

/*
 * The places of the deployed version in the order of ties, but those that have rows first: in a new
 * scale, others may lie where they do.  And their centroids; how many have rows.
 */
static int
list_places(const Refit *refit, int32 *places, double *points)
{
	const GkModel *model = refit->deployed;
	int			d = model->dimension;
	int			count = 0;
	int			listed = 0;

	for (int i = 0; i < model->k; i++)
		count += refit->has_rows[i];
	for (int i = 0, next = count; i < model->k; i++)
	{
		int32		place = gk_cluster_at(model, i);
		int			at = refit->has_rows[place] ? listed++ : next++;

		places[at] = place;
		memcpy(points + at * (int64) d, refit->points + place * (int64) d, d * sizeof(double));
	}
	return count;
}

/*
 * Labels the rows, in a new scale, with the deployed version; places[label] := that of its cluster,
 * or -1 if that has lost its rows, so that whatever belongs to it in the new scale moves.
 */
static void
label_in_new_scale(Refit *refit, int32 *places)
{
	const GkModel *model = refit->deployed;
	GkCall	   *call = &refit->call;
	double	   *points = gk_allocate(model->k * (int64) model->dimension, sizeof(double));
	GkCluster  *now = gk_allocate(model->k, sizeof(GkCluster));
	int			count = list_places(refit, places, points);

	for (int i = count; i < model->k; i++)
		places[i] = -1;
	refit->result->inertia_before =
		gk_fit_label(call->job, &call->arguments.fit, &refit->prepared, points, model->k, now);
}

/*
 * Labels the rows with the deployed version, unless that was done, and keeps the labels, to find
 * the clusters that go on, and count changes.
 */
static void
keep_labels(Refit *refit)
{
	const GkModel *model = refit->deployed;
	GkCall	   *call = &refit->call;
	int32	   *places = gk_allocate(model->k, sizeof(int32));

	if (keeps_scale(refit))
		list_in_ties(model, places);
	else
		label_in_new_scale(refit, places);
	refit->labels_before = gk_keep_labels(call->engine, call->arguments.fit.rows, places);
}

/* Marks a place as continued; true if it had rows and nothing else continues it. */
static bool
take_place(bool *is_left, int32 place)
{
	bool		is_free = is_left[place];

	is_left[place] = false;
	return is_free;
}

/* True if a new cluster has more than rows of weight 0, and so can continue another one. */
static bool
has_weight(const GkFit *fit, int64 c)
{
	return fit->clusters[c].weight > 0.0;
}

/* The places of which the clusters' centroids are almost the same; -1 = none. */
static void
find_unmoved(const Refit *refit, int32 *unmoved)
{
	const GkModel *model = refit->deployed;
	const GkFit *fit = &refit->call.fit;
	int			d = model->dimension;
	int32	   *places = gk_allocate(model->k, sizeof(int32));
	double	   *points = gk_allocate(model->k * (int64) d, sizeof(double));
	int			count = list_places(refit, places, points);
	int32	   *clusters = gk_allocate(fit->k, sizeof(int32));
	double	   *from = gk_allocate(fit->k * d, sizeof(double));
	int32	   *match = gk_allocate(fit->k, sizeof(int32));
	int			rows = 0;

	for (int64 c = 0; c < fit->k; c++)
	{
		unmoved[c] = -1;
		if (has_weight(fit, c))
			clusters[rows++] = (int32) c;
	}
	copy_points(fit->model.points, d, clusters, rows, from);
	gk_match_unmoved(from, rows, points, count, d, match);
	for (int i = 0; i < rows; i++)
		if (match[i] >= 0)
			unmoved[clusters[i]] = places[match[i]];
	pfree(places);
	pfree(points);
	pfree(clusters);
	pfree(from);
	pfree(match);
}

/* The places of which the clusters keep most rows, and have few others; -1 = none. */
static void
find_majorities(const Refit *refit, int32 *shared)
{
	const GkFit *fit = &refit->call.fit;
	int32	   *match = gk_allocate(fit->labels, sizeof(int32));

	for (int64 c = 0; c < fit->k; c++)
		shared[c] = -1;
	gk_match_majorities(refit->labels_before, refit->call.engine, fit->labels, refit->deployed->k,
						match);
	for (int64 label = 0; label < fit->labels; label++)
	{
		int32		c = fit->model.place_of_label[label];

		if (c >= 0 && has_weight(fit, c))
			shared[c] = match[label];
	}
	pfree(match);
}

/*
 * Finds the clusters that go on by their centroids or rows.  Neither is enough alone: a cluster
 * whose centroid stays may lose most rows of its label to one that appears beside it, and one that
 * keeps its rows may have its centroid pulled away by an outlier, perhaps to that of another one:
 * then its rows decide, if no centroid claims them.
 */
static void
find_clear(const Refit *refit, int32 *continued, bool *is_left)
{
	const GkModel *model = refit->deployed;
	const GkFit *fit = &refit->call.fit;
	int32	   *shared = gk_allocate(fit->k, sizeof(int32));
	bool	   *is_claimed = gk_allocate_zero(model->k, sizeof(bool));
	bool		has_changed;

	find_unmoved(refit, continued);
	find_majorities(refit, shared);
	for (int64 c = 0; c < fit->k; c++)
		if (continued[c] >= 0)
			is_claimed[continued[c]] = true;
	/* one that leaves a place for that of its rows may let another one have it */
	do
	{
		has_changed = false;
		for (int64 c = 0; c < fit->k; c++)
		{
			CHECK_FOR_INTERRUPTS();
			if (shared[c] < 0 || !is_left[shared[c]] || is_claimed[shared[c]])
				continue;
			if (continued[c] >= 0)
				is_claimed[continued[c]] = false;
			continued[c] = shared[c];
			is_claimed[shared[c]] = true;
			has_changed = true;
		}
	} while (has_changed);
	for (int64 c = 0; c < fit->k; c++)
		if (continued[c] >= 0)
			is_left[continued[c]] = false;
	pfree(shared);
	pfree(is_claimed);
}

/*
 * Finds the places that other clusters continue after a fit from the deployed centroids: their own.
 * But one that was moved to other rows only continues the cluster to which its centroid belongs, if
 * no other does.
 */
static void
find_kept(const Refit *refit, int32 *continued, bool *is_left)
{
	const GkModel *model = refit->deployed;
	const GkFit *fit = &refit->call.fit;
	int32	   *places = gk_allocate(model->k, sizeof(int32));
	double	   *points = gk_allocate(model->k * (int64) model->dimension, sizeof(double));
	int32		nearest;

	(void) list_places(refit, places, points);
	for (int64 c = 0; c < fit->k; c++)
	{
		int32		place = fit->clusters[c].id;

		if (continued[c] < 0 && has_weight(fit, c) && !refit->is_moved[place] &&
			take_place(is_left, place))
			continued[c] = place;
	}
	for (int64 c = 0; c < fit->k; c++)
	{
		if (continued[c] >= 0 || !has_weight(fit, c))
			continue;
		gk_match_centroids(fit->model.points + c * model->dimension, 1, points, model->k,
						   model->dimension, &nearest);
		if (take_place(is_left, places[nearest]))
			continued[c] = places[nearest];
	}
	pfree(places);
	pfree(points);
}

/* Matches other clusters with the places that are left, after a fresh start. */
static void
match_left(const Refit *refit, int32 *continued, const bool *is_left)
{
	const GkModel *model = refit->deployed;
	const GkFit *fit = &refit->call.fit;
	int			d = model->dimension;
	int32	   *clusters = gk_allocate(fit->k, sizeof(int32));
	int32	   *places = gk_allocate(model->k, sizeof(int32));
	double	   *from = gk_allocate(fit->k * d, sizeof(double));
	double	   *to = gk_allocate(model->k * (int64) d, sizeof(double));
	int32	   *match = gk_allocate(fit->k, sizeof(int32));
	int			rows = 0;
	int			columns = 0;

	for (int64 c = 0; c < fit->k; c++)
		if (continued[c] < 0 && has_weight(fit, c))
			clusters[rows++] = (int32) c;
	for (int i = 0; i < model->k; i++)
		if (is_left[gk_cluster_at(model, i)])
			places[columns++] = gk_cluster_at(model, i);
	copy_points(fit->model.points, d, clusters, rows, from);
	copy_points(refit->points, d, places, columns, to);
	if (rows > 0 && columns > 0)
		gk_match_centroids(from, rows, to, columns, d, match);
	for (int i = 0; i < rows && columns > 0; i++)
		continued[clusters[i]] = match[i] < 0 ? -1 : places[match[i]];
	pfree(clusters);
	pfree(places);
	pfree(from);
	pfree(to);
	pfree(match);
}

/* Finds the places that the clusters continue in the deployed version; -1 = none. */
static void
find_continued(const Refit *refit, int32 *continued)
{
	const GkModel *model = refit->deployed;
	bool	   *is_left = gk_allocate(model->k, sizeof(bool));

	memcpy(is_left, refit->has_rows, model->k * sizeof(bool));
	find_clear(refit, continued, is_left);
	if (refit->call.fit.best_start == GK_EARLIER_START)
		find_kept(refit, continued, is_left);
	else
		match_left(refit, continued, is_left);
	pfree(is_left);
}

/* Puts the clusters of a fit from the deployed centroids in the order of these, by place. */
static void
order_by_place(Refit *refit)
{
	GkFit	   *fit = &refit->call.fit;
	int32	   *places = gk_allocate(fit->k, sizeof(int32));

	refit->is_moved = gk_allocate(refit->deployed->k, sizeof(bool));
	for (int start = 0; start < refit->deployed->k; start++)
		refit->is_moved[refit->start_places[start]] = fit->is_moved[start];
	for (int64 c = 0; c < fit->k; c++)
		places[c] = refit->start_places[fit->clusters[c].id];
	gk_fit_renumber(fit, refit->deployed->dimension, places);
	pfree(places);
}

/* Gives a cluster a number. */
static void
take_number(const Refit *refit, int32 *ids, int64 c, int32 number, bool *is_taken)
{
	ids[c] = number;
	if (number < refit->call.fit.k)
		is_taken[number] = true;
}

/*
 * Gives the clusters the numbers of those that they continue.  Others get that of the centroid from
 * which they began, or else the lowest one, that is free.
 */
static void
number_clusters(Refit *refit)
{
	const GkModel *model = refit->deployed;
	GkFit	   *fit = &refit->call.fit;
	bool		is_from_deployed = fit->best_start == GK_EARLIER_START;
	int32	   *ids = gk_allocate(fit->k, sizeof(int32));
	bool	   *is_taken = gk_allocate_zero(fit->k, sizeof(bool));
	int32		number = 0;

	refit->continues = gk_allocate_zero(model->k, sizeof(bool));
	if (is_from_deployed)
		order_by_place(refit);
	find_continued(refit, ids);
	for (int64 c = 0; c < fit->k; c++)
	{
		if (ids[c] < 0)
			continue;
		refit->continues[ids[c]] = true;
		take_number(refit, ids, c, gk_cluster_id(model, ids[c]), is_taken);
	}
	for (int64 c = 0; is_from_deployed && c < fit->k; c++)
		if (ids[c] < 0 && !refit->continues[fit->clusters[c].id])
			take_number(refit, ids, c, gk_cluster_id(model, fit->clusters[c].id), is_taken);
	for (int64 c = 0; c < fit->k; c++)
	{
		if (ids[c] >= 0)
			continue;
		while (is_taken[number])
			number++;
		ids[c] = number++;
	}
	gk_fit_renumber(fit, model->dimension, ids);
	pfree(is_taken);
	pfree(ids);
}

/* Counts the rows whose cluster differs from the deployed version's. */
static int64
count_moved(Refit *refit)
{
	const GkModel *model = refit->deployed;
	const GkFit *fit = &refit->call.fit;
	int32	   *then = gk_allocate(model->k, sizeof(int32));
	int32	   *now = gk_allocate(fit->labels, sizeof(int32));

	for (int place = 0; place < model->k; place++)
		then[place] = gk_cluster_id(model, place);
	for (int64 label = 0; label < fit->labels; label++)
		now[label] = fit->model.place_of_label[label] < 0 ? -1
			: fit->clusters[fit->model.place_of_label[label]].id;
	return gk_count_moved(refit->labels_before, refit->call.engine, then, now);
}

/* Begins with the deployed centroids, in the order in which keep_labels() decided ties. */
static void
start_from_deployed(Refit *refit)
{
	const GkModel *model = refit->deployed;
	int			d = model->dimension;
	double	   *points = gk_allocate(model->k * (int64) d, sizeof(double));

	refit->start_places = gk_allocate(model->k, sizeof(int32));
	if (keeps_scale(refit))
	{
		list_in_ties(model, refit->start_places);
		copy_points(refit->points, d, refit->start_places, model->k, points);
	}
	else
		(void) list_places(refit, refit->start_places, points);
	refit->call.arguments.fit.earlier = points;
}

/* Fits the rows. */
static void
fit_rows(Refit *refit)
{
	GkCall	   *call = &refit->call;
	GkFitSpec  *spec = &call->arguments.fit;

	if (refit->spec->starts >= 0)
		spec->n_init = refit->spec->starts;
	if (is_comparable(refit))
		keep_points(refit);
	if (is_comparable(refit))
		keep_labels(refit);
	if (is_comparable(refit) && refit->deployed->k == spec->k)
		start_from_deployed(refit);
	else
		spec->n_init = Max(spec->n_init, 1);
	gk_fit_prepared(call->job, spec, &refit->prepared, &call->fit);
	if (!is_comparable(refit))
		return;
	number_clusters(refit);
	refit->result->moved = count_moved(refit);
}

/* True if the new version is to be deployed; how much better it is. */
static void
decide(Refit *refit)
{
	GkRefitResult *result = refit->result;

	result->inertia = refit->call.fit.inertia;
	if (!is_comparable(refit))
		result->inertia_before = NAN;
	else
		result->improvement = result->inertia_before > 0.0
			? 1.0 - result->inertia / result->inertia_before : 0.0;
	result->deployed = refit->spec->deploy == GK_DEPLOY_ALWAYS ||
		(refit->spec->deploy == GK_DEPLOY_BETTER &&
		 !(result->improvement <= refit->spec->min_improvement));
	result->status = result->deployed || refit->spec->deploy == GK_DEPLOY_NEVER ? "fitted"
		: "rejected";
}

/* How much better a version is, as a text. */
static const char *
describe_improvement(double improvement)
{
	double		percent = fabs(100.0 * improvement);

	if (improvement == 0.0)
		return "as good as";
	return psprintf("%s%.1f %% %s than", percent < 0.1 ? "less than " : "", Max(percent, 0.1),
					improvement < 0.0 ? "worse" : "better");
}

/* Says which clusters no other continues, as a part of the outcome. */
static const char *
describe_lost(const Refit *refit)
{
	const GkModel *model = refit->deployed;
	const GkFit *fit = &refit->call.fit;
	int			lost = 0;
	int			id = 0;
	int64		c = 0;

	for (int place = 0; place < model->k; place++)
	{
		if (refit->continues[place])
			continue;
		lost++;
		id = gk_cluster_id(model, place);
	}
	if (lost != 1)
		return lost == 0 ? "" : psprintf(", %d clusters lost their rows", lost);
	while (c < fit->k && fit->clusters[c].id != id)
		c++;
	return psprintf(", cluster %d lost its rows and %s", id, c < fit->k ? "began anew" : "ended");
}

/* The outcome, as a text. */
static const char *
describe_outcome(const Refit *refit)
{
	const GkRefitResult *result = refit->result;
	const char *end = result->deployed ? "" : ", not deployed";

	if (refit->is_beyond)
		return psprintf("centroids of version %d lie too far from these rows to be compared%s",
						refit->deployed->version, end);
	if (!is_comparable(refit))
		return psprintf("the definition differs from that of version %d%s",
						refit->deployed->version, end);
	return psprintf("%s version %d, " INT64_FORMAT " %s moved%s%s",
					describe_improvement(result->improvement), refit->deployed->version,
					result->moved, result->moved == 1 ? "row" : "rows", describe_lost(refit), end);
}

/* The names of the clusters that continue; the others have none. */
static void
find_names(Refit *refit)
{
	const GkModel *model = refit->deployed;
	const GkFit *fit = &refit->call.fit;
	int			place = 0;

	if (model->names == NULL || !is_comparable(refit))
		return;
	refit->names = gk_allocate_zero(fit->k, sizeof(char *));
	for (int64 c = 0; c < fit->k; c++)
	{
		while (place < model->k && gk_cluster_id(model, place) < fit->clusters[c].id)
			place++;
		if (place < model->k && gk_cluster_id(model, place) == fit->clusters[c].id &&
			refit->continues[place])
			refit->names[c] = model->names[place];
	}
}

/* Makes the row of the new version. */
static void
draft_fit(Refit *refit)
{
	MemoryContext before = MemoryContextSwitchTo(refit->context);

	gk_draft_version(&refit->draft, &refit->call);
	find_names(refit);
	if (refit->names != NULL)
		gk_draft_texts(&refit->draft, GK_MODEL_NAMES, (const char *const *) refit->names,
					   (int) refit->call.fit.k);
	if (refit->result->moved >= 0)
		gk_draft_set(&refit->draft, GK_MODEL_MOVED, Int64GetDatum(refit->result->moved));
	refit->result->outcome = describe_outcome(refit);
	MemoryContextSwitchTo(before);
}

/* Labels the rows with the deployed version again. */
static void
label_again(Refit *refit)
{
	GkCall	   *call = &refit->call;
	GkCluster  *now = gk_allocate(refit->deployed->k, sizeof(GkCluster));

	(void) gk_fit_label(call->job, &call->arguments.fit, &refit->prepared,
						call->arguments.fit.points, refit->deployed->k, now);
	gk_call_describe_model(call, refit->deployed);
}

/*
 * Makes the labels of the version that is deployed at the end.  If that is the old one and the
 * rows are now compared differently, they were made before; with other features there are none.
 */
static void
make_labels(Refit *refit)
{
	GkCall	   *call = &refit->call;

	if (call->table == NULL)
		return;
	if (refit->result->deployed)
	{
		gk_call_describe_fit(call, refit->result->version, refit->names);
		if (refit->labels != NULL)
			tuplestore_end(refit->labels);
	}
	else if (keeps_scale(refit))
		label_again(refit);
	else
	{
		gk_call_describe_model(call, refit->deployed);
		return;
	}
	refit->labels = gk_call_labels(call);
}

/* Fits, and decides if the result is deployed. */
static void
run_fit(Refit *refit)
{
	fit_rows(refit);
	decide(refit);
	draft_fit(refit);
	make_labels(refit);
	gk_draft_figures(&refit->draft, &refit->call);
}

/* A drift in two digits, or in all of them if these would not be below the limit. */
static char *
text_below(double psi, double limit)
{
	char	   *text = psprintf("%.2g", psi);

	return strtod(text, NULL) < limit ? text : double_to_shortest_decimal(psi);
}

/* Records only the drift; the labels are those of the deployed version. */
static void
run_check(Refit *refit)
{
	GkRefitResult *result = refit->result;
	double		limit = refit->spec->only_if_drift;

	result->status = "checked";
	result->outcome = psprintf("psi %s, below %s", text_below(result->psi, limit),
							   double_to_shortest_decimal(limit));
	result->outcome = MemoryContextStrdup(refit->context, result->outcome);
	gk_draft_set(&refit->draft, GK_MODEL_ROWS_READ, Int64GetDatum(refit->call.rows.read));
	gk_draft_set(&refit->draft, GK_MODEL_ROWS_USED, Int64GetDatum(result->rows));
	refit->labels = gk_call_labels(&refit->call);
}

/* Keeps what is known of the rows as they are read. */
static GkRows
keep_facts(const Refit *refit)
{
	const GkRows *rows = &refit->call.rows;
	GkRows		facts = {.read = rows->read,.skipped = rows->skipped,.is_newer = rows->is_newer,
		.counts.zeros = rows->counts.zeros};
	Size		bytes = rows->dimension * sizeof(double);

	if (rows->least == NULL)
		return facts;
	facts.least = MemoryContextAlloc(refit->context, bytes);
	facts.greatest = MemoryContextAlloc(refit->context, bytes);
	memcpy(facts.least, rows->least, bytes);
	memcpy(facts.greatest, rows->greatest, bytes);
	return facts;
}

/*
 * Raises an error if the rows of two readings are not the same, as far as is known: readings over
 * nodes, by Citus, or of a source that others altered have snapshots of their own.
 */
static void
compare_facts(const GkRows *first, const GkRows *rows)
{
	Size		bytes = rows->dimension * sizeof(double);

	/* rows of zeros are skipped only where rows are read by their direction */
	if (first->read != rows->read ||
		first->skipped - first->counts.zeros != rows->skipped - rows->counts.zeros ||
		(first->least != NULL && rows->least != NULL &&
		 (memcmp(first->least, rows->least, bytes) != 0 ||
		  memcmp(first->greatest, rows->greatest, bytes) != 0)))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("source changed between two readings"),
				 errdetail("The second one saw other rows than the first."),
				 errhint("Try again. If the source gives other rows each time, write them to a "
						 "table first.")));
}

/* Has the report count what the first of two readings took. */
static void
add_reading(GkCall *call, const GkCall *first)
{
	call->begin = first->begin;
	call->report.open_seconds += first->report.open_seconds;
	call->report.read_seconds += first->report.read_seconds;
	call->report.label_seconds += first->report.label_seconds;
	call->rows.read_twice = true;
}

/*
 * Reads the rows again, as the definition says.  The labels of the first reading are written as
 * those of the second would be, so its ids and the table of labels must be as they were.
 */
static void
read_again(Refit *refit)
{
	GkCall	   *call = &refit->call;
	Oid			id_type = call->id_type;
	MemoryContext before = MemoryContextSwitchTo(refit->context);
	List	   *id_parts = gk_id_parts(id_type);
	GkCall		first;
	GkLabelColumns columns = call->table == NULL ? 0 : gk_labels_table_columns(call->table);
	GkRows		facts = keep_facts(refit);
	bool		was_divided = call->cluster != NULL;
	Snapshot	read_by = NULL;

	MemoryContextSwitchTo(before);
	if (refit->spec->deploy != GK_DEPLOY_ALWAYS)
		refit->labels = gk_call_labels(call);
	if (refit->labels != NULL)
		read_by = RegisterSnapshot(call->read_by);
	first = *call;
	gk_call_end_job(call);
	gk_call_close(call);
	forget_settings(refit);
	read_rows(refit, false);
	add_reading(call, &first);
	if (refit->labels != NULL)
	{
		/* others may have written labels of newer rows between the readings */
		UnregisterSnapshot(call->read_by);
		call->read_by = read_by;
	}
	if (was_divided || call->cluster != NULL || facts.is_newer)
		compare_facts(&facts, &call->rows);
	if (refit->labels != NULL &&
		(call->id_type != id_type || !equal(gk_id_parts(id_type), id_parts) ||
		 gk_labels_table_columns(call->table) != columns))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("source or table of labels changed while the source was being read"),
				 errhint("Try again.")));
}

/* Reads the rows, and fits unless they hardly drifted; true if it fits. */
static bool
run(Refit *refit)
{
	bool		is_fitted;

	if (refit->same_features)
	{
		read_rows(refit, true);
		find_drift(refit);
	}
	else
		read_rows(refit, false);
	is_fitted = !is_quiet(refit);
	if (!is_fitted)
		run_check(refit);
	else
	{
		if (refit->same_features && !keeps_scale(refit))
			read_again(refit);
		run_fit(refit);
	}
	gk_keep_request(&refit->call, &refit->asked);
	gk_call_end_job(&refit->call);
	gk_draft_json(&refit->draft, GK_MODEL_REPORT, gk_report_json(&refit->call.report));
	return is_fitted;
}

/* Writes the labels. */
static void
write_labels(Refit *refit)
{
	GkLabelsWritten written;

	refit->is_labelled = refit->labels == NULL ||
		gk_call_write_labels(&refit->call, refit->labels, &written);
}

/* Has the outcome say that labels stay as others have written them. */
static void
record_missing_labels(Refit *refit)
{
	GkRefitResult *result = refit->result;
	GkDraft		draft;

	result->outcome = psprintf("%s, labels not written", result->outcome);
	result->outcome = MemoryContextStrdup(refit->context, result->outcome);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "could not connect to SPI");
	gk_begin_draft(&draft);
	gk_draft_text(&draft, GK_MODEL_OUTCOME, result->outcome);
	gk_update_draft(&draft, RelationGetRelid(refit->relation), result->version);
	SPI_finish();
}

/* Writes the labels and the row of the version. */
static void
write_version(Refit *refit, bool has_row)
{
	GkRefitResult *result = refit->result;
	GkDraft    *draft = &refit->draft;
	Oid			relation_id = RelationGetRelid(refit->relation);

	gk_progress_phase(GK_PHASE_WRITING);
	write_labels(refit);
	gk_draft_text(draft, GK_MODEL_STATUS, result->status);
	gk_draft_text(draft, GK_MODEL_OUTCOME, result->outcome);
	gk_draft_set(draft, GK_MODEL_FINISHED_AT, TimestampTzGetDatum(GetCurrentTimestamp()));
	if (result->deployed)
	{
		gk_draft_set(draft, GK_MODEL_DEPLOYED, BoolGetDatum(true));
		gk_draft_set(draft, GK_MODEL_DEPLOYED_AT,
					 TimestampTzGetDatum(gk_deployment_time(relation_id)));
		gk_draft_text(draft, GK_MODEL_DEPLOYED_BY,
					  GetUserNameFromId(refit->owner.caller, false));
		gk_withdraw_deployed(relation_id);
	}
	gk_draft_set(draft, GK_MODEL_VERSION, Int32GetDatum(result->version));
	if (has_row)
		gk_update_draft(draft, relation_id, result->version);
	else
		gk_insert_draft(draft, relation_id);
}

/* Labels newer rows, where others have labelled some during the fit. */
static void
label_newer_rows(Refit *refit)
{
	int			version = refit->result->deployed ? refit->result->version
		: refit->deployed->version;

	if (refit->is_labelled)
		return;
	forget_settings(refit);
	if (!gk_assign_newer(&refit->call, refit->spec->model, version, &refit->asked))
		record_missing_labels(refit);
}

/* Refits. */
void
gk_refit(const GkRefitSpec *spec, int version, GkRefitResult *result)
{
	Refit		refit = {.spec = spec,.result = result};
	bool		is_fitted;
	GkNews		news;

	PreventCommandIfReadOnly("gkmeans_refit()");
	PreventCommandIfParallelMode("gkmeans_refit()");
	memset(result, 0, sizeof(GkRefitResult));
	begin_refit(&refit, version);
	is_fitted = run(&refit);
	UnregisterSnapshot(refit.first.snapshot);
	gk_mark_lost(refit.relation, version);
	write_version(&refit, version != 0);
	if (is_fitted)
		gk_call_end(&refit.call);
	else
		gk_call_close(&refit.call);
	label_newer_rows(&refit);
	if (spec->keep >= 0)
		gk_prune_seen(spec->model, spec->keep);
	news = (GkNews) {.version = result->version,.status = result->status,
		.deployed = result->deployed,.psi = result->psi,.moved = result->moved};
	gk_tell(refit.relation, refit.definition, &news);
	gk_close_as_owner(refit.relation, &refit.owner);
	if (refit.labels != NULL)
		tuplestore_end(refit.labels);
}
