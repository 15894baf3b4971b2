/*
 * The arguments of gkmeans_fit and gkmeans_fit_predict.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/numeric.h"

#include "alloc.h"
#include "arguments.h"
#include "engine.h"
#include "sql_values.h"

#define DEFAULT_MAX_ITER 300
#define DEFAULT_TOL 1e-4
#define DEFAULT_OVERSAMPLING 1.0
#define DEFAULT_ROUNDS 5
#define MAX_STARTS 1000
#define MAX_ROUNDS 100
#define MAX_OVERSAMPLING 1000.0

/* Positions of the arguments, counted from the source. */
enum
{
	SOURCE,
	FEATURES,
	K,
	ID_COLUMN,
	WEIGHT_COLUMN,
	INIT,
	INITIAL_CENTROIDS,
	METRIC,
	SCALE,
	NULLS,
	MAX_ITER,
	TOL,
	N_INIT,
	SEED,
	QUALITY,
	LABELS_TABLE,
	IF_EXISTS,
	OPTIONS
};

/* The valid words for an argument, NULL at the end; their positions are the enum's values. */
static const char *const init_words[] = {"k-means||", "k-means++", "random", "given", NULL};
static const char *const metric_words[] = {"euclidean", "cosine", NULL};
static const char *const scale_words[] = {"none", "standard", "minmax", "auto", NULL};
static const char *const nulls_words[] = {"skip", "error", NULL};
static const char *const quality_words[] = {"auto", "fast", "good", "best", NULL};
static const char *const if_exists_words[] = {"error", "replace", "append", "merge", "delete",
NULL};
static const char *const option_words[] = {"oversampling", "rounds", "id_name", NULL};

/* An argument as one of several words; the first is the default. */
static int
word_argument(FunctionCallInfo fcinfo, int number, const char *argument, const char *const *words)
{
	return gk_find_word(argument, gk_text_or(fcinfo, number, words[0]), words);
}

/* Refuses a list of features that is empty or too long. */
static void
check_count(int count)
{
	if (count == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("features is empty"),
				 errhint("Name at least one column, or leave features out to take every number "
						 "that is not a key, or the only array.")));
	if (count > GK_MAX_DIMENSION)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("features has %d elements, more than the limit of %d", count,
						GK_MAX_DIMENSION)));
}

/* The names of the features. */
static List *
read_features(FunctionCallInfo fcinfo, int number)
{
	List	   *features = NIL;
	ArrayType  *array;
	Datum	   *values;
	bool	   *nulls;
	int			count;

	if (PG_ARGISNULL(number))
		return NIL;
	array = PG_GETARG_ARRAYTYPE_P(number);
	check_count(ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array)));
	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &values, &nulls, &count);
	for (int i = 0; i < count; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("features contains a NULL"),
					 errdetail("Element %d is NULL.", i + 1)));
		features = lappend(features, TextDatumGetCString(values[i]));
	}
	return features;
}

/* The initial centroids, if there are any. */
static void
read_initial(FunctionCallInfo fcinfo, int number, GkArguments *arguments)
{
	ArrayType  *array;
	const double *values;
	int64		count;

	if (PG_ARGISNULL(number))
		return;
	array = PG_GETARG_ARRAYTYPE_P(number);
	if (ARR_NDIM(array) != 2)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("initial_centroids is not an array of arrays"),
				 errhint("Write one array for each centroid: '{{1,2},{3,4}}'.")));
	if (array_contains_nulls(array))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("initial_centroids contains a NULL")));
	values = (const double *) ARR_DATA_PTR(array);
	count = (int64) ARR_DIMS(array)[0] * ARR_DIMS(array)[1];
	for (int64 i = 0; i < count; i++)
		if (!isfinite(values[i]))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("initial_centroids contains a value that is not finite"),
					 errdetail("Element %lld of centroid %lld is %g.",
							   (long long) (i % ARR_DIMS(array)[1] + 1),
							   (long long) (i / ARR_DIMS(array)[1] + 1), values[i])));
	arguments->fit.initial = values;
	arguments->fit.k = ARR_DIMS(array)[0];
	arguments->initial_dimension = ARR_DIMS(array)[1];
}

/* k, which may follow from the initial centroids. */
static void
read_k(FunctionCallInfo fcinfo, int number, GkArguments *arguments)
{
	int64		given = arguments->fit.k;

	if (PG_ARGISNULL(number) && given == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("k is missing"),
				 errhint("Give the number of clusters as k, or initial_centroids.")));
	if (!PG_ARGISNULL(number))
		arguments->fit.k = PG_GETARG_INT64(number);
	if (arguments->fit.k <= 0)
		gk_out_of_range("k", psprintf("1 to %d", GK_MAX_CLUSTERS));
	if (given > 0 && given != arguments->fit.k)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("k does not fit initial_centroids"),
				 errdetail_plural("k is %lld, and there is %lld initial centroid.",
								  "k is %lld, and there are %lld initial centroids.", given,
								  (long long) arguments->fit.k, (long long) given),
				 errhint("Leave k out to take the number of initial centroids.")));
	if (arguments->fit.k > GK_MAX_CLUSTERS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("k is %lld, more than the limit of %d",
						(long long) arguments->fit.k, GK_MAX_CLUSTERS)));
}

/* The initialisation, which initial centroids imply. */
static void
read_init(FunctionCallInfo fcinfo, int number, GkFitSpec *fit)
{
	fit->init = word_argument(fcinfo, number, "init", init_words);
	if (fit->init == GK_INIT_GIVEN && fit->initial == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("init is \"given\", but initial_centroids is missing"),
				 errhint("Give the centroids as initial_centroids, an array of arrays.")));
	if (fit->initial == NULL)
		return;
	if (fit->init == GK_INIT_PLUSPLUS || fit->init == GK_INIT_RANDOM)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("init is \"%s\", but initial_centroids are given", init_words[fit->init]),
				 errhint("Leave out one of the two.")));
	fit->init = GK_INIT_GIVEN;
}

/* The numbers that say when to stop and how often to start. */
static void
read_limits(FunctionCallInfo fcinfo, int first, GkFitSpec *fit)
{
	fit->max_iter = PG_ARGISNULL(first + MAX_ITER) ? DEFAULT_MAX_ITER
		: PG_GETARG_INT32(first + MAX_ITER);
	fit->tol = PG_ARGISNULL(first + TOL) ? DEFAULT_TOL : PG_GETARG_FLOAT8(first + TOL);
	fit->n_init = PG_ARGISNULL(first + N_INIT) ? 1 : PG_GETARG_INT32(first + N_INIT);
	fit->seed = PG_ARGISNULL(first + SEED) ? 0 : PG_GETARG_INT64(first + SEED);
	if (fit->max_iter < 1)
		gk_out_of_range("max_iter", "1 and above");
	if (!(fit->tol >= 0.0) || isinf(fit->tol))
		gk_out_of_range("tol", "finite numbers, 0 and above");
	if (fit->n_init < 1 || fit->n_init > MAX_STARTS)
		gk_out_of_range("n_init", psprintf("1 to %d", MAX_STARTS));
}

/* How hard to look for better centroids, which given ones do not allow. */
static void
read_quality(FunctionCallInfo fcinfo, int number, GkFitSpec *fit)
{
	fit->quality = word_argument(fcinfo, number, "quality", quality_words);
	if (fit->init == GK_INIT_GIVEN && fit->quality > GK_QUALITY_FAST)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("quality is \"%s\", but initial_centroids are given",
						quality_words[fit->quality]),
				 errdetail("Given centroids keep their numbers, which a search would not."),
				 errhint("Leave out one of the two.")));
}

/* The word for a quality. */
const char *
gk_quality_name(GkFitQuality quality)
{
	return quality_words[quality];
}

/* The option that names the id column of the labels table. */
static const char *
read_id_name(const JsonbValue *value)
{
	char	   *name;

	if (value->type != jbvString || value->val.string.len == 0 ||
		value->val.string.len >= NAMEDATALEN)
		gk_out_of_range("option id_name", psprintf("names of 1 to %d bytes", NAMEDATALEN - 1));
	name = pnstrdup(value->val.string.val, value->val.string.len);
	if (gk_is_label_column(name))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("option id_name is the name of another column of the labels: \"%s\"",
						name)));
	return name;
}

/* One option. */
static void
read_option(const char *key, const JsonbValue *value, GkArguments *arguments)
{
	int			option = gk_find_word("option", key, option_words);
	GkFitSpec  *fit = &arguments->fit;
	double		number = NAN;

	if (value->type == jbvNumeric)
		number = DatumGetFloat8(DirectFunctionCall1(numeric_float8_no_overflow,
													NumericGetDatum(value->val.numeric)));
	if (option == 0)
	{
		if (!(number > 0.0 && number <= MAX_OVERSAMPLING))
			gk_out_of_range("option oversampling", "numbers above 0, up to 1000");
		fit->oversampling = number;
	}
	else if (option == 2)
		arguments->id_name = read_id_name(value);
	else
	{
		if (!(number >= 0.0 && number <= MAX_ROUNDS && number == floor(number)))
			gk_out_of_range("option rounds", "whole numbers from 0 to 100");
		fit->rounds = (int) number;
	}
}

/* The options: an object of known keys. */
static void
read_options(FunctionCallInfo fcinfo, int number, GkArguments *arguments)
{
	GkFitSpec  *fit = &arguments->fit;
	Jsonb	   *options;
	JsonbIterator *iterator;
	JsonbIteratorToken token;
	JsonbValue	value;
	char	   *key = NULL;

	fit->oversampling = DEFAULT_OVERSAMPLING;
	fit->rounds = DEFAULT_ROUNDS;
	if (PG_ARGISNULL(number))
		return;
	options = PG_GETARG_JSONB_P(number);
	if (!JB_ROOT_IS_OBJECT(options))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("options is not a JSON object"),
				 errhint("Known options are %s.", gk_list_words(option_words))));
	iterator = JsonbIteratorInit(&options->root);
	while ((token = JsonbIteratorNext(&iterator, &value, true)) != WJB_DONE)
	{
		if (token == WJB_KEY)
			key = pnstrdup(value.val.string.val, value.val.string.len);
		else if (token == WJB_VALUE)
			read_option(key, &value, arguments);
	}
}

/* The source and its columns. */
static void
read_source(FunctionCallInfo fcinfo, int first, GkArguments *arguments)
{
	GkSourceSpec *source = &arguments->source;

	if (PG_ARGISNULL(first + SOURCE))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("source is NULL"),
				 errhint("Give the name of a table or view, or a query.")));
	source->source = gk_text_or(fcinfo, first + SOURCE, NULL);
	source->features = read_features(fcinfo, first + FEATURES);
	source->id_column = gk_text_or(fcinfo, first + ID_COLUMN, NULL);
	source->weight_column = gk_text_or(fcinfo, first + WEIGHT_COLUMN, NULL);
	source->id_type = InvalidOid;
	source->nulls_are_errors = word_argument(fcinfo, first + NULLS, "nulls", nulls_words) == 1;
}

/* The metric that a word names. */
GkMetric
gk_metric_word(const char *word)
{
	return gk_find_word("metric", word, metric_words);
}

/* The scaling that a word names. */
GkScale
gk_scale_word(const char *word)
{
	return gk_find_word("scale", word, scale_words);
}

/* True if unusable rows are errors. */
bool
gk_nulls_word(const char *word)
{
	return gk_find_word("nulls", word, nulls_words) == 1;
}

/* An argument that lists features. */
List *
gk_features_argument(FunctionCallInfo fcinfo, int number)
{
	return read_features(fcinfo, number);
}

/* Parses what to do if a labels table exists. */
GkIfExists
gk_if_exists(const char *argument, const char *word)
{
	return gk_find_word(argument, word, if_exists_words);
}

/* True if the function is one of models, which has arguments of its own after these. */
static bool
is_of_model(FunctionCallInfo fcinfo, int first)
{
	return PG_NARGS() > first + OPTIONS + 1;
}

/* Raises an error if what is said of labels does not go together. */
static void
check_labels(const GkArguments *arguments, bool of_model)
{
	if (arguments->labels_table != NULL && arguments->source.id_column == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("labels_table needs an id_column"),
				 of_model ? errhint("Name the column that identifies the rows as id_column, where "
									"the model is created or with gkmeans_alter_model().")
				 : errhint("Name the column that identifies the rows as id_column.")));
	if (arguments->labels_table == NULL && arguments->id_name != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("option id_name needs a labels_table"),
				 errhint("It names the id column of that table.")));
}

/* What to do if the labels table exists; models have another name and another default for it. */
static GkIfExists
read_if_exists(FunctionCallInfo fcinfo, int first)
{
	int			number = first + IF_EXISTS;

	if (is_of_model(fcinfo, first))
		return gk_if_exists("labels_mode", gk_text_or(fcinfo, number, "merge"));
	return word_argument(fcinfo, number, "if_exists", if_exists_words);
}

/* Reads and checks the arguments. */
void
gk_read_arguments(FunctionCallInfo fcinfo, int first, GkArguments *arguments)
{
	GkFitSpec  *fit = &arguments->fit;

	memset(arguments, 0, sizeof(*arguments));
	if (PG_NARGS() <= first + OPTIONS)
		gk_refuse_version();
	fit->metric = word_argument(fcinfo, first + METRIC, "metric", metric_words);
	fit->scale = word_argument(fcinfo, first + SCALE, "scale", scale_words);
	read_source(fcinfo, first, arguments);
	read_initial(fcinfo, first + INITIAL_CENTROIDS, arguments);
	read_k(fcinfo, first + K, arguments);
	read_init(fcinfo, first + INIT, fit);
	read_limits(fcinfo, first, fit);
	read_quality(fcinfo, first + QUALITY, fit);
	read_options(fcinfo, first + OPTIONS, arguments);
	fit->weighted = arguments->source.weight_column != NULL;
	arguments->labels_table = gk_text_or(fcinfo, first + LABELS_TABLE, NULL);
	arguments->if_exists = read_if_exists(fcinfo, first);
	check_labels(arguments, is_of_model(fcinfo, first));
}
