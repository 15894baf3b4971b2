/*
 * The SQL function gkmeans_report: a page about a model, in one file.
 *
 * It is HTML that is also XML, and refers to nothing outside.
 */
#include "postgres.h"

#include <math.h>

#include "access/relation.h"
#include "catalog/pg_class.h"
#include "commands/comment.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/rel.h"

#include "alloc.h"
#include "json_rows.h"
#include "markup.h"
#include "pictures.h"
#include "sql_function.h"
#include "sql_values.h"

GK_SQL_FUNCTION(gkmeans_report);

/* Positions of the arguments. */
enum
{
	MODEL,
	VERSION,
	TITLE
};

/* The most clusters, as rows and as columns, versions and features listed; characters of a text. */
#define MOST_CLUSTERS 200
#define MOST_COLUMNS 16
#define MOST_VERSIONS 50
#define MOST_FEATURES 50
#define MOST_TITLE 200
#define MOST_NAME 100
#define MOST_TEXT 4000
#define MOST_DEFINITION 20000

/* More levels than a definition has that gkmeans writes. */
#define MOST_DEPTH 6

static const char *const style =
	":root{color-scheme:light dark;--line:#d5d8dc;--soft:#5f6670;--card:#f4f6f8}"
	"body{margin:0 auto;max-width:1120px;padding:24px;font:15px/1.5 system-ui,sans-serif;"
	"color:#1c2126;background:#fff}"
	"h1{margin:0;font-size:26px;overflow-wrap:anywhere}h2{margin:36px 0 12px;font-size:19px}"
	"p{margin:6px 0}.soft{color:var(--soft)}"
	".cards{display:flex;flex-wrap:wrap;gap:10px;margin:20px 0}"
	".cards div{background:var(--card);border-radius:8px;padding:10px 16px;min-width:90px}"
	".cards b{display:block;font-size:20px}.cards span{color:var(--soft);font-size:13px}"
	".plots{display:grid;gap:16px;"
	"grid-template-columns:repeat(auto-fit,minmax(min(100%,480px),1fr))}"
	"figure{margin:0;padding:10px;border:1px solid var(--line);border-radius:8px}"
	"svg{display:block;width:100%;height:auto}"
	".wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:14px}"
	"th,td{text-align:left;padding:5px 10px;border-bottom:1px solid var(--line);vertical-align:top}"
	"td{overflow-wrap:anywhere}.n{text-align:right}.n,.d{white-space:nowrap}"
	"th{color:var(--soft);font-weight:600}"
	"pre{background:var(--card);padding:14px;border-radius:8px;white-space:pre-wrap;"
	"overflow-wrap:anywhere;font-size:13px}"
	".dot{display:inline-block;width:10px;height:10px;border-radius:3px;margin-right:8px}"
	"@media(prefers-color-scheme:dark){:root{--line:#3a4149;--soft:#a3adb8;--card:#22282e}"
	"body{color:#e6e9ec;background:#14181c}}"
	"@media print{:root{color-scheme:light;--line:#ccc;--soft:#555;--card:#f4f4f4}"
	"body{max-width:none;padding:0;color:#000;background:#fff;font-size:12px}"
	".plots{grid-template-columns:1fr 1fr}"
	"figure,tr,.cards div{break-inside:avoid}h2{break-after:avoid}"
	"body *{-webkit-print-color-adjust:exact;print-color-adjust:exact}}";

/* Appends a cell of a table: a text of the database. */
static void
put_text(StringInfo page, const char *text)
{
	appendStringInfoString(page, "<td>");
	gk_append_escaped(page, text != NULL ? text : "", MOST_TEXT);
	appendStringInfoString(page, "</td>");
}

/* Appends a cell of a table: a number as markup. */
static void
put_number(StringInfo page, const char *number)
{
	appendStringInfo(page, "<td class=\"n\">%s</td>", number);
}

/* Begins a table; "#" before the head of a column says that it has numbers. */
static void
begin_table(StringInfo page, const char *const *heads)
{
	appendStringInfoString(page, "<div class=\"wide\"><table><tr>");
	for (; *heads != NULL; heads++)
	{
		bool		is_number = (*heads)[0] == '#';

		appendStringInfo(page, "<th%s>%s</th>", is_number ? " class=\"n\"" : "",
						 *heads + is_number);
	}
	appendStringInfoString(page, "</tr>\n");
}

/* Ends it. */
static void
end_table(StringInfo page)
{
	appendStringInfoString(page, "</table></div>\n");
}

/* A number that may be unknown. */
static const char *
number_text(double value)
{
	return isnan(value) ? "&#8211;" : gk_short_number(value);
}

/* The beginning of the page. */
static void
put_head(StringInfo page, const char *title)
{
	appendStringInfoString(page, "<!DOCTYPE html>\n"
						   "<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\"><head>"
						   "<meta charset=\"utf-8\"/><meta name=\"viewport\""
						   " content=\"width=device-width,initial-scale=1\"/><title>");
	gk_append_escaped(page, title, MOST_TITLE);
	appendStringInfo(page, "</title><style>%s</style></head>\n<body><h1>", style);
	gk_append_escaped(page, title, MOST_TITLE);
	appendStringInfoString(page, "</h1>\n");
}

/* The description of the model. */
static void
put_model(StringInfo page, const GkSubject *subject)
{
	const char *comment = GetComment(RelationGetRelid(subject->relation), RelationRelationId, 0);
	const char *note = gk_row_beginning(&subject->row, GK_MODEL_NOTE);
	const char *made_by = gk_row_beginning(&subject->row, GK_MODEL_STARTED_BY);
	const char *status = gk_row_beginning(&subject->row, GK_MODEL_STATUS);

	appendStringInfoString(page, "<p class=\"soft\">Model ");
	gk_append_escaped(page, subject->model, MOST_TEXT);
	appendStringInfo(page, ", version %d", subject->row.version);
	for (int i = 0; i < subject->count; i++)
		if (subject->past[i].version == subject->row.version)
		{
			appendStringInfoString(page, ", ");
			gk_append_escaped(page, status != NULL ? status : "unknown", MOST_NAME);
			if (subject->past[i].day[0] != '\0')
				appendStringInfo(page, " on %s", subject->past[i].day);
			if (made_by != NULL)
				appendStringInfoString(page, " by ");
			gk_append_escaped(page, made_by != NULL ? made_by : "", MOST_NAME);
			appendStringInfoString(page, subject->past[i].deployed ? ", deployed" : "");
		}
	appendStringInfoString(page, "</p>\n");
	for (int i = 0; i < 2; i++)
	{
		const char *text = i == 0 ? comment : note;

		if (text == NULL || text[0] == '\0')
			continue;
		appendStringInfoString(page, "<p>");
		gk_append_escaped(page, text, MOST_TEXT);
		appendStringInfoString(page, "</p>\n");
	}
}

/* A figure of the version, unless it is unknown. */
static void
put_card(StringInfo page, const char *value, const char *what)
{
	if (value != NULL)
		appendStringInfo(page, "<div><b>%s</b><span>%s</span></div>", value, what);
}

/* A number for a card; NULL if it is unknown. */
static const char *
card_number(const GkSubject *subject, GkModelAttribute number)
{
	double		value = gk_subject_number(subject, number);

	return isnan(value) ? NULL : gk_short_number(value);
}

/* The share of the variance that the clusters explain; NULL if it is unknown. */
static const char *
explained_text(const GkSubject *subject)
{
	double		explained = gk_subject_number(subject, GK_MODEL_BETWEEN_SS) /
		gk_subject_number(subject, GK_MODEL_TOTAL_SS);

	return isfinite(explained) ? gk_share_text(explained) : NULL;
}

/* The figures of the version. */
static void
put_cards(StringInfo page, const GkSubject *subject)
{
	double		rows = gk_total_size(&subject->summary);
	const char *metric = gk_row_short_text(&subject->row, GK_MODEL_METRIC);

	appendStringInfoString(page, "<div class=\"cards\">");
	put_card(page, gk_count_text(subject->summary.k), "clusters");
	put_card(page, gk_count_text(subject->summary.dimension), "features");
	put_card(page, rows > 0.0 ? gk_count_text((int64) rows) : NULL, "rows");
	put_card(page, metric != NULL && strcmp(metric, "cosine") == 0 ? "cosine" : "Euclidean",
			 "metric");
	put_card(page, card_number(subject, GK_MODEL_INERTIA), "inertia");
	put_card(page, explained_text(subject), "of the variance explained");
	put_card(page, card_number(subject, GK_MODEL_SILHOUETTE), "silhouette");
	put_card(page, card_number(subject, GK_MODEL_SIMPLIFIED_SILHOUETTE),
			 "simplified silhouette");
	appendStringInfoString(page, "</div>\n");
}

/* The pictures. */
static void
put_pictures(StringInfo page, const GkSubject *subject)
{
	appendStringInfoString(page, "<div class=\"plots\">\n");
	for (const GkPicture *picture = gk_pictures; picture->name != NULL; picture++)
		if (picture->missing(subject) == NULL)
			appendStringInfo(page, "<figure>%s</figure>\n",
							 gk_draw_picture(subject, picture, 640, 400));
	appendStringInfoString(page, "</div>\n");
}

/* A cluster. */
static void
put_cluster(StringInfo page, const GkSummary *summary, int c, double total, GkRank *order)
{
	appendStringInfo(page, "<tr><td class=\"n\">%d</td><td>"
					 "<span class=\"dot\" style=\"background:%s\"></span>",
					 gk_summary_id(summary, c), gk_cluster_color(c));
	gk_append_escaped(page, gk_summary_name(summary, c), MOST_NAME);
	appendStringInfoString(page, "</td>");
	put_number(page, summary->sizes != NULL ? gk_count_text(summary->sizes[c]) : "&#8211;");
	put_number(page, total > 0.0 ? gk_share_text(summary->sizes[c] / total) : "&#8211;");
	put_number(page, number_text(summary->avg_distances != NULL ? summary->avg_distances[c] : NAN));
	put_number(page, number_text(summary->radii != NULL ? summary->radii[c] : NAN));
	put_text(page, gk_describe_profile(summary, c, order, false));
	appendStringInfoString(page, "</tr>\n");
}

/* The clusters. */
static void
put_clusters(StringInfo page, const GkSubject *subject)
{
	static const char *const heads[] = {"#number", "name", "#rows", "#share", "#average distance",
	"#radius", "what stands out", NULL};
	const GkSummary *summary = &subject->summary;
	double		total = gk_total_size(summary);
	GkRank	   *order = gk_allocate(summary->dimension, sizeof(GkRank));

	appendStringInfoString(page, "<h2>Clusters</h2>");
	begin_table(page, heads);
	for (int c = 0; c < Min(summary->k, MOST_CLUSTERS); c++)
	{
		CHECK_FOR_INTERRUPTS();
		put_cluster(page, summary, c, total, order);
	}
	end_table(page);
	if (summary->k > MOST_CLUSTERS)
		appendStringInfo(page, "<p class=\"soft\">and %s more</p>\n",
						 gk_count_text(summary->k - MOST_CLUSTERS));
}

/* Says how many of something a table leaves out, if any. */
static void
put_more(StringInfo page, int64 count, const char *what)
{
	if (count > 0)
		appendStringInfo(page, "<p class=\"soft\">%s</p>\n", gk_more_text(count, what));
}

/* A feature of the clusters, as mean and deviation. */
static void
put_feature(StringInfo page, const GkSummary *summary, const double *deviations, int j)
{
	appendStringInfoString(page, "<tr>");
	put_text(page, gk_summary_feature(summary, j));
	for (int64 c = 0; c < Min(summary->k, MOST_COLUMNS); c++)
	{
		int64		at = c * summary->dimension + j;
		double		deviation = deviations != NULL ? deviations[at] : NAN;
		const char *value = gk_number_beside(summary->centroids[at], deviation);

		put_number(page, isnan(deviation) ? value
				   : psprintf("%s&#160;&#177;&#160;%s", value, gk_short_number(deviation)));
	}
	appendStringInfoString(page, "</tr>\n");
}

/* The features of the clusters. */
static void
put_features(StringInfo page, const GkSubject *subject)
{
	const GkSummary *summary = &subject->summary;
	const double *deviations = gk_row_measure_matrix(&subject->row, GK_MODEL_DEVIATIONS,
													 summary->k, summary->dimension);
	int			columns = Min(summary->k, MOST_COLUMNS);
	const char **heads = gk_allocate_zero(columns + 2, sizeof(char *));

	heads[0] = "feature";
	for (int c = 0; c < columns; c++)
		heads[c + 1] = psprintf("#%d", gk_summary_id(summary, c));
	appendStringInfo(page, "<h2>Features of the clusters</h2><p class=\"soft\">%s</p>\n",
					 deviations != NULL ? "centroid &#177; standard deviation within the cluster"
					 : "centroid");
	begin_table(page, heads);
	for (int j = 0; j < Min(summary->dimension, MOST_FEATURES); j++)
	{
		CHECK_FOR_INTERRUPTS();
		put_feature(page, summary, deviations, j);
	}
	end_table(page);
	put_more(page, summary->k - columns, "cluster");
	put_more(page, summary->dimension - MOST_FEATURES, "feature");
}

/* The texts of a version; NULL if they are not known. */
typedef struct Texts
{
	char	   *status;
	char	   *outcome;			/* what came of it, or why it failed */
	bool		are_read;
} Texts;

/* Reads those of the versions from a place among all on. */
static Texts *
read_texts(const GkSubject *subject, int first)
{
	Texts	   *texts = gk_allocate(subject->count - first, sizeof(Texts));
	GkHeads    *heads = gk_begin_heads(subject->relation);

	memset(texts, 0, (subject->count - first) * sizeof(Texts));
	while (gk_next_head(heads))
	{
		GkModelRow	row;
		int			place = first;

		gk_open_row(&row, subject->relation, gk_head(heads));
		while (place < subject->count && subject->past[place].version != row.version)
			place++;
		if (place == subject->count || texts[place - first].are_read)
			continue;
		texts[place - first].status = gk_row_beginning(&row, GK_MODEL_STATUS);
		texts[place - first].outcome = gk_row_beginning(&row, GK_MODEL_OUTCOME);
		texts[place - first].are_read = true;
	}
	gk_end_heads(heads);
	return texts;
}

/* The newest versions. */
static void
put_versions(StringInfo page, const GkSubject *subject)
{
	int			first = Max(0, subject->count - MOST_VERSIONS);
	const Texts *texts = read_texts(subject, first);
	static const char *const heads[] = {"#version", "status", "finished", "#rows", "#clusters",
	"#inertia", "#explained", "#psi", "outcome", NULL};

	appendStringInfoString(page, "<h2>Versions</h2>");
	begin_table(page, heads);
	for (int i = subject->count - 1; i >= first; i--)
	{
		const GkPast *past = &subject->past[i];

		appendStringInfo(page, "<tr><td class=\"n\">%d</td><td>", past->version);
		gk_append_escaped(page, texts[i - first].status != NULL ? texts[i - first].status : "",
						  MOST_NAME);
		appendStringInfo(page, "%s</td><td class=\"d\">%s</td>", past->deployed ? ", deployed" : "",
						 past->day);
		put_number(page, past->rows >= 0 ? gk_count_text(past->rows) : "&#8211;");
		put_number(page, past->k > 0 ? gk_count_text(past->k) : "&#8211;");
		put_number(page, number_text(past->inertia));
		put_number(page, isnan(past->explained) ? "&#8211;" : gk_share_text(past->explained));
		put_number(page, number_text(past->psi));
		put_text(page, texts[i - first].outcome);
		appendStringInfoString(page, "</tr>\n");
	}
	end_table(page);
}

/* A mean, or a dash. */
static const char *
mean_text(double mean, double deviation)
{
	return isnan(mean) ? number_text(mean) : gk_number_beside(mean, deviation);
}

/* The drift of a feature. */
static void
put_feature_drift(StringInfo page, JsonbContainer *row)
{
	double		deviation = gk_read_number(row, "deviation_then");

	appendStringInfoString(page, "<tr>");
	put_text(page, gk_json_text(row, "feature"));
	put_number(page, mean_text(gk_read_number(row, "mean_then"), deviation));
	put_number(page, mean_text(gk_read_number(row, "mean_now"), deviation));
	put_number(page, number_text(gk_read_number(row, "shift")));
	put_number(page, number_text(gk_read_number(row, "deviation_ratio")));
	put_number(page, number_text(gk_read_number(row, "unusable_now")));
	appendStringInfoString(page, "</tr>\n");
}

/* The drift of the features. */
static void
put_drift(StringInfo page, const GkSubject *subject)
{
	static const char *const heads[] = {"feature", "#mean then", "#mean now",
	"#shift in deviations", "#ratio of deviations", "#unusable now", NULL};
	const GkPast *drift = gk_subject_drift(subject);
	GkJsonRows	rows;

	if (drift == NULL)
		return;
	rows = gk_json_rows(&subject->drift->root, "features");
	appendStringInfo(page, "<h2>Drift</h2><p>Version %d found a psi of %s: %s.</p>\n",
					 drift->version, gk_short_number(drift->psi),
					 drift->psi < GK_PSI_WATCH ? "the rows are distributed as they were" :
					 drift->psi < GK_PSI_REFIT ? "the rows begin to differ from those of the fit"
					 : "the rows differ from those of the fit");
	if (rows.count == 0)
		return;
	begin_table(page, heads);
	for (int i = 0; i < Min(rows.count, MOST_FEATURES); i++)
		put_feature_drift(page, rows.rows[i]);
	end_table(page);
	put_more(page, rows.count - MOST_FEATURES, "feature");
}

/* True if a JSON value is nested so deeply that its indentation would be long. */
static bool
is_deep(Jsonb *json)
{
	JsonbIterator *iterator = JsonbIteratorInit(&json->root);
	JsonbValue	value;
	JsonbIteratorToken token;
	int			depth = 0;

	while ((token = JsonbIteratorNext(&iterator, &value, false)) != WJB_DONE && depth < MOST_DEPTH)
	{
		CHECK_FOR_INTERRUPTS();
		if (token == WJB_BEGIN_ARRAY || token == WJB_BEGIN_OBJECT)
			depth++;
		else if (token == WJB_END_ARRAY || token == WJB_END_OBJECT)
			depth--;
	}
	return depth == MOST_DEPTH;
}

/* The definition of the version. */
static void
put_definition(StringInfo page, const GkSubject *subject)
{
	Jsonb	   *definition = gk_subject_json(subject, GK_MODEL_DEFINITION);
	const char *text;

	if (definition == NULL)
		return;
	text = is_deep(definition) ? JsonbToCString(NULL, &definition->root, VARSIZE(definition))
		: JsonbToCStringIndent(NULL, &definition->root, VARSIZE(definition));
	appendStringInfoString(page, "<h2>Definition</h2><pre>");
	gk_append_escaped(page, text, MOST_DEFINITION);
	appendStringInfoString(page, "</pre>\n");
}

/* SQL: a page about a model. */
Datum
gkmeans_report(PG_FUNCTION_ARGS)
{
	int			version = gk_version_argument(fcinfo, VERSION);
	GkSubject	subject;
	StringInfoData page;

	if (PG_ARGISNULL(MODEL))
		PG_RETURN_NULL();
	gk_open_subject(&subject, gk_open_model(PG_GETARG_OID(MODEL)));
	if (!gk_find_subject(&subject, version))
		gk_model_has_no_version(subject.relation, version);
	gk_read_subject(&subject);
	initStringInfo(&page);
	put_head(&page, gk_text_or(fcinfo, TITLE, subject.model));
	put_model(&page, &subject);
	if (subject.summary.k > 0)
		put_cards(&page, &subject);
	put_pictures(&page, &subject);
	if (subject.summary.k > 0)
	{
		put_clusters(&page, &subject);
		put_features(&page, &subject);
	}
	put_drift(&page, &subject);
	put_versions(&page, &subject);
	put_definition(&page, &subject);
	appendStringInfoString(&page, "</body></html>\n");
	gk_close_subject(&subject);
	relation_close(subject.relation, AccessShareLock);
	PG_RETURN_TEXT_P(cstring_to_text_with_len(page.data, page.len));
}
