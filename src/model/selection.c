/*
 * The choice of k.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

#include "alloc.h"
#include "definition.h"
#include "fitted.h"
#include "progress.h"
#include "quality.h"
#include "selection.h"

/* Rows of a reference at most where nothing is said of them. */
#define REFERENCE_ROWS 10000

/* References of the gap where it is the criterion and nothing is said of them. */
#define DEFAULT_REFERENCES 20

/* The columns of the result: k, the figures, and these. */
#define COLUMNS (GK_FIGURES + 4)

static const char *const figure_names[] = {"inertia", "explained", "silhouette",
	"simplified_silhouette", "davies_bouldin", "calinski_harabasz", "bic", "gap", "gap_error",
"elbow"};

/* The figure that the word of a criterion names. */
static GkFigure
find_criterion(const char *word)
{
	for (int figure = GK_FIGURE_SILHOUETTE; figure < GK_FIGURES; figure++)
		if (figure != GK_FIGURE_GAP_ERROR && strcmp(figure_names[figure], word) == 0)
			return figure;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid criterion: \"%s\"", word),
			 errhint("Valid values are \"simplified_silhouette\", \"silhouette\", "
					 "\"davies_bouldin\", \"calinski_harabasz\", \"bic\", \"gap\", \"elbow\".")));
}

/* Refuses a list of k that is empty or too long. */
static void
check_count(const char *argument, int count)
{
	if (count == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s is empty", argument),
				 errhint("List the numbers of clusters to be tried: '{2,3,4,5,6}'.")));
	if (count > GK_MAX_CANDIDATES)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("%s has %d elements, more than the limit of %d", argument, count,
						GK_MAX_CANDIDATES)));
}

/* Refuses numbers that cannot be tried. */
static void
check_candidates(const char *argument, const Datum *values, const bool *nulls, int count)
{
	for (int i = 0; i < count; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("%s contains a NULL", argument)));
		if (DatumGetInt32(values[i]) < 1 || DatumGetInt32(values[i]) > GK_MAX_CLUSTERS)
			ereport(ERROR,
					(errcode(DatumGetInt32(values[i]) < 1 ? ERRCODE_INVALID_PARAMETER_VALUE
							 : ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("%s contains a number that is out of range", argument),
					 errdetail("Element %d is %d.", i + 1, DatumGetInt32(values[i])),
					 errhint("Valid values are 1 to %d.", GK_MAX_CLUSTERS)));
	}
}

/* Reads the candidates and the criterion. */
bool
gk_read_candidates(FunctionCallInfo fcinfo, int first, const char *argument,
				   GkCandidateSpec *spec)
{
	ArrayType  *array;
	Datum	   *values;
	bool	   *nulls;
	int			count;

	spec->criterion = PG_ARGISNULL(first + 1) ? GK_FIGURE_SIMPLIFIED_SILHOUETTE
		: find_criterion(text_to_cstring(PG_GETARG_TEXT_PP(first + 1)));
	if (PG_ARGISNULL(first))
		return false;
	array = PG_GETARG_ARRAYTYPE_P(first);
	check_count(argument, ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array)));
	deconstruct_array(array, INT4OID, sizeof(int32), true, TYPALIGN_INT, &values, &nulls, &count);
	check_candidates(argument, values, nulls, count);
	spec->candidates = gk_allocate(count, sizeof(int));
	for (int i = 0; i < count; i++)
		spec->candidates[i] = DatumGetInt32(values[i]);
	gk_sort_integers(spec->candidates, count);
	spec->count = 1;
	for (int i = 1; i < count; i++)
		if (spec->candidates[i] != spec->candidates[i - 1])
			spec->candidates[spec->count++] = spec->candidates[i];
	spec->sample = 0;
	spec->references = spec->criterion == GK_FIGURE_GAP ? DEFAULT_REFERENCES : 0;
	return true;
}

/*
 * The Bayesian information criterion of spherical Gaussians that share one variance, as in
 * X-means (Pelleg and Moore 2000): log-likelihood - parameters ÷ 2 × ln(rows).
 */
static double
find_bic(const GkQuality *quality, int k, int dimension)
{
	double		rows = quality->rows;
	double		free_rows = rows - quality->clusters;
	double		variance = quality->inertia / (dimension * free_rows);
	double		likelihood = -rows * log(rows);

	if (!(free_rows > 0.0))
		return NAN;
	if (!(quality->inertia > 0.0))
		return HUGE_VAL;
	for (int c = 0; c < k; c++)
		if (quality->sizes[c] > 0)
			likelihood += quality->sizes[c] * log(quality->sizes[c]);
	likelihood -= dimension * (rows * log(2 * M_PI * variance) + free_rows) / 2;
	return likelihood - (double) quality->clusters * (dimension + 1) / 2 * log(rows);
}

/* The gap of a clustering to the references. */
static double
find_gap(const GkQuality *quality, const GkReference *reference)
{
	if (quality->rows <= quality->clusters)
		return NAN;
	if (!(quality->inertia > 0.0))
		return HUGE_VAL;
	return reference->expected - log(quality->inertia / (quality->rows - quality->clusters));
}

/* The figures of a fit that was measured. */
static void
derive_figures(GkCandidate *candidate, const GkQuality *quality, int dimension,
			   const GkReference *reference)
{
	double	   *figures = candidate->figures;
	double		total = candidate->fit.model.total;

	candidate->within = quality->within;
	figures[GK_FIGURE_INERTIA] = candidate->fit.inertia;
	figures[GK_FIGURE_EXPLAINED] = total > 0.0 ? (total - candidate->fit.inertia) / total : NAN;
	figures[GK_FIGURE_SILHOUETTE] = quality->silhouette;
	figures[GK_FIGURE_SIMPLIFIED_SILHOUETTE] = quality->simplified_silhouette;
	figures[GK_FIGURE_DAVIES_BOULDIN] = quality->davies_bouldin;
	figures[GK_FIGURE_CALINSKI_HARABASZ] = quality->calinski_harabasz;
	figures[GK_FIGURE_BIC] = find_bic(quality, (int) candidate->fit.k, dimension);
	figures[GK_FIGURE_GAP] = reference == NULL ? NAN : find_gap(quality, reference);
	figures[GK_FIGURE_GAP_ERROR] = reference == NULL ? NAN : reference->error;
	figures[GK_FIGURE_ELBOW] = NAN;
}

/* Fits one candidate and measures it. */
static void
try_candidate(GkCall *call, const GkCandidateSpec *spec, GkPrepared *prepared,
			  const GkReference *reference, GkCandidate *candidate)
{
	GkFit	   *fit = &candidate->fit;
	MemoryContext scratch;
	MemoryContext before;
	GkQuality	quality;

	call->arguments.fit.k = candidate->k;
	candidate->context = AllocSetContextCreate(CurrentMemoryContext, "gkmeans candidate",
											   ALLOCSET_DEFAULT_SIZES);
	before = MemoryContextSwitchTo(candidate->context);
	gk_progress_inertia(NAN);
	gk_fit_prepared(call->job, &call->arguments.fit, prepared, fit);
	gk_progress_phase(GK_PHASE_MEASURING);
	candidate->seconds = fit->seed_seconds + fit->iterate_seconds + fit->label_seconds;
	scratch = AllocSetContextCreate(CurrentMemoryContext, "gkmeans figures",
									ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(scratch);
	gk_measure_fit(call, fit, spec->sample, false, &quality);
	derive_figures(candidate, &quality, call->arguments.fit.dimension, reference);
	MemoryContextSwitchTo(before);
	MemoryContextDelete(scratch);
}

/*
 * How far the inertia is below the chord from a single cluster to the greatest k, in parts of
 * that chord's height: the inertia of a single cluster is known, asked for or not.
 */
static void
find_elbows(GkSelection *selection)
{
	const GkCandidate *last = &selection->candidates[selection->count - 1];
	double		single = last->fit.model.single;
	double		height = single - last->figures[GK_FIGURE_INERTIA];

	for (int i = 0; i < selection->count && last->k > 2 && height > 0.0; i++)
	{
		double	   *figures = selection->candidates[i].figures;

		/* NaN until it is tried */
		figures[GK_FIGURE_ELBOW] = (single - figures[GK_FIGURE_INERTIA]) / height -
			(selection->candidates[i].k - 1.0) / (last->k - 1.0);
	}
}

/* The least k whose gap is not below that of the next one by more than the error. */
static int
choose_by_gap(const GkSelection *selection)
{
	for (int i = 0; i < selection->count; i++)
	{
		const double *figures = selection->candidates[i].figures;
		const double *next = i + 1 < selection->count ? selection->candidates[i + 1].figures : NULL;

		if (isnan(figures[GK_FIGURE_GAP]))
			continue;
		if (next == NULL || isnan(next[GK_FIGURE_GAP]) || isinf(figures[GK_FIGURE_GAP]) ||
			figures[GK_FIGURE_GAP] >= next[GK_FIGURE_GAP] - next[GK_FIGURE_GAP_ERROR])
			return i;
	}
	return -1;
}

/* How good a candidate is by the criterion: greater is better; NaN = not defined. */
static double
value_of(const GkCandidate *candidate, GkFigure criterion)
{
	double		value = candidate->figures[criterion];

	if (criterion == GK_FIGURE_DAVIES_BOULDIN)
		return -value;
	/* rows equal to their means: by its definition the index is 1 then, as if that were bad */
	if (criterion == GK_FIGURE_CALINSKI_HARABASZ && !isnan(value) && !(candidate->within > 0.0))
		return HUGE_VAL;
	return value;
}

/* The place of the best candidate, the least of equals; -1 if there is none. */
static int
choose(const GkSelection *selection, GkFigure criterion)
{
	int			best = -1;

	if (criterion == GK_FIGURE_GAP)
		return choose_by_gap(selection);
	for (int i = 0; i < selection->count; i++)
	{
		double		value = value_of(&selection->candidates[i], criterion);

		if (!isnan(value) &&
			(best < 0 || value > value_of(&selection->candidates[best], criterion)))
			best = i;
	}
	return best;
}

/* Frees the clusters of the candidates that others have outdone. */
static void
free_clusters(GkSelection *selection, GkFigure criterion)
{
	int			kept = choose(selection, criterion);

	for (int i = 0; i < selection->count; i++)
	{
		GkCandidate *candidate = &selection->candidates[i];

		if (i == kept || candidate->context == NULL)
			continue;
		MemoryContextDelete(candidate->context);
		candidate->context = NULL;
	}
}

/* Candidates of which nothing is known. */
static void
begin_selection(const GkCandidateSpec *spec, GkSelection *selection)
{
	selection->count = spec->count;
	selection->candidates = gk_allocate_zero(spec->count, sizeof(GkCandidate));
	for (int i = 0; i < spec->count; i++)
	{
		selection->candidates[i].k = spec->candidates[i];
		for (int figure = 0; figure < GK_FIGURES; figure++)
			selection->candidates[i].figures[figure] = NAN;
	}
}

/* The candidate to be tried next: by the elbow, which the greatest k decides, that one first. */
static int
candidate_at(const GkCandidateSpec *spec, int turn)
{
	if (spec->criterion != GK_FIGURE_ELBOW)
		return turn;
	return turn == 0 ? spec->count - 1 : turn - 1;
}

/* What is known of random rows, for each candidate; NULL if it is not asked for. */
static GkReference *
find_references(GkCall *call, const GkCandidateSpec *spec, const GkPrepared *prepared)
{
	GkReference *references;

	if (spec->references == 0)
		return NULL;
	references = gk_allocate_zero(spec->count, sizeof(GkReference));
	for (int i = 0; i < spec->count; i++)
		references[i].k = spec->candidates[i];
	gk_find_references(call, prepared, spec->sample > 0 ? spec->sample : REFERENCE_ROWS,
					   spec->references, references, spec->count);
	return references;
}

/* Fits and measures each candidate, and chooses. */
void
gk_select_k(GkCall *call, const GkCandidateSpec *spec, GkSelection *selection)
{
	GkPrepared	prepared;
	GkReference *references;

	gk_call_check_rows(call);
	gk_prepare(call->job, &call->arguments.fit, &prepared);
	references = find_references(call, spec, &prepared);
	begin_selection(spec, selection);
	for (int turn = 0; turn < spec->count; turn++)
	{
		int			i = candidate_at(spec, turn);

		try_candidate(call, spec, &prepared, references == NULL ? NULL : &references[i],
					  &selection->candidates[i]);
		find_elbows(selection);
		free_clusters(selection, spec->criterion);
	}
	selection->chosen = choose(selection, spec->criterion);
}

/* Makes the chosen candidate the fit of the call. */
void
gk_take_chosen(GkCall *call, const GkCandidateSpec *spec, const GkSelection *selection)
{
	GkFit	   *fit = &call->fit;

	if (selection->chosen < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("criterion \"%s\" is not defined for any of the candidates",
						figure_names[spec->criterion]),
				 spec->criterion == GK_FIGURE_ELBOW
				 ? errhint("An elbow needs a k above 2, and rows that differ.")
				 : spec->criterion == GK_FIGURE_BIC || spec->criterion == GK_FIGURE_GAP
				 ? errhint("It needs fewer clusters than there are rows.")
				 : errhint("Silhouettes and indices need two clusters or more, and fewer than "
						   "there are rows.")));
	*fit = selection->candidates[selection->chosen].fit;
	call->arguments.fit.k = selection->candidates[selection->chosen].k;
	fit->seed_seconds = fit->iterate_seconds = fit->label_seconds = 0.0;
	for (int i = 0; i < selection->count; i++)
	{
		fit->seed_seconds += selection->candidates[i].fit.seed_seconds;
		fit->iterate_seconds += selection->candidates[i].fit.iterate_seconds;
		fit->label_seconds += selection->candidates[i].fit.label_seconds;
	}
	gk_fit_restore(call->job, &call->arguments.fit, fit);
}

/* Puts one row for every candidate into a result. */
void
gk_put_selection(const GkSelection *selection, ReturnSetInfo *result)
{
	for (int i = 0; i < selection->count; i++)
	{
		const GkCandidate *candidate = &selection->candidates[i];
		Datum		values[COLUMNS];
		bool		nulls[COLUMNS] = {0};

		values[0] = Int32GetDatum(candidate->k);
		for (int figure = 0; figure < GK_FIGURES; figure++)
		{
			values[1 + figure] = Float8GetDatum(candidate->figures[figure]);
			nulls[1 + figure] = !isfinite(candidate->figures[figure]);
		}
		values[COLUMNS - 3] = Int32GetDatum(candidate->fit.iterations);
		values[COLUMNS - 2] = Float8GetDatum(candidate->seconds);
		values[COLUMNS - 1] = BoolGetDatum(i == selection->chosen);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
}

/* The table as JSON. */
char *
gk_selection_json(const GkSelection *selection)
{
	StringInfoData json;

	initStringInfo(&json);
	for (int i = 0; i < selection->count; i++)
	{
		const GkCandidate *candidate = &selection->candidates[i];

		appendStringInfo(&json, "%s{\"k\": %d", i == 0 ? "[" : ", ", candidate->k);
		for (int figure = 0; figure < GK_FIGURES; figure++)
			gk_append_json_number(&json, figure_names[figure], candidate->figures[figure]);
		appendStringInfo(&json, ", \"iterations\": %d", candidate->fit.iterations);
		gk_append_json_number(&json, "seconds", candidate->seconds);
		appendStringInfo(&json, ", \"chosen\": %s}", i == selection->chosen ? "true" : "false");
	}
	appendStringInfoChar(&json, ']');
	return json.data;
}
