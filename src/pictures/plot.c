/*
 * The SQL function gkmeans_plot, and the functions behind the view gkmeans.plots.
 */
#include "postgres.h"

#include "access/relation.h"
#include "common/base64.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "pictures.h"
#include "sql_function.h"
#include "sql_values.h"

GK_SQL_FUNCTION(gkmeans_plot);
GK_SQL_FUNCTION(gk_visible_pictures);
GK_SQL_FUNCTION(gk_visible_picture);

/* Positions of the arguments. */
enum
{
	MODEL,
	WHAT,
	VERSION,
	WIDTH,
	HEIGHT,
	FORMAT
};

/* The size of a picture in the view. */
#define USUAL_WIDTH 640
#define USUAL_HEIGHT 400

#define DATA_URI "data:image/svg+xml;base64,"

/* The names of all pictures, for a HINT. */
static const char *
list_pictures(void)
{
	StringInfoData list;

	initStringInfo(&list);
	for (const GkPicture *picture = gk_pictures; picture->name != NULL; picture++)
		appendStringInfo(&list, "%s\"%s\"", list.len > 0 ? ", " : "", picture->name);
	return list.data;
}

/* The picture with this name. */
static const GkPicture *
find_picture(const char *name)
{
	for (const GkPicture *picture = gk_pictures; picture->name != NULL; picture++)
		if (strcmp(picture->name, name) == 0)
			return picture;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("there is no plot \"%s\"", name),
			 errhint("Valid values are %s.", list_pictures())));
}

/* A length argument. */
static int
length_argument(FunctionCallInfo fcinfo, int number, const char *name, int usual, int least)
{
	int			length = PG_ARGISNULL(number) ? usual : PG_GETARG_INT32(number);

	if (length < least || length > GK_MOST_LENGTH)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must be between %d and %d", name, least, GK_MOST_LENGTH)));
	return length;
}

/* True if the format is a data URI. */
static bool
is_data_uri(const char *format)
{
	if (strcmp(format, "svg") != 0 && strcmp(format, "data_uri") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid format: \"%s\"", format),
				 errhint("Valid values are \"svg\", \"data_uri\".")));
	return format[0] == 'd';
}

/* A picture in its format. */
static Datum
in_format(const char *svg, bool as_data_uri)
{
	int			length = (int) strlen(svg);
	int			room = pg_b64_enc_len(length);
	StringInfoData uri;
	int			used;

	if (!as_data_uri)
		return CStringGetTextDatum(svg);
	initStringInfo(&uri);
	appendStringInfoString(&uri, DATA_URI);
	enlargeStringInfo(&uri, room + 1);
	used = pg_b64_encode((const void *) svg, length, uri.data + uri.len, room);
	if (used < 0)
		elog(ERROR, "could not encode a picture");
	return PointerGetDatum(cstring_to_text_with_len(uri.data, uri.len + used));
}

/* Raises an error if a version lacks what its picture needs. */
static void
check_subject(const GkSubject *subject, const GkPicture *picture)
{
	const char *missing = picture->missing(subject);

	if (missing != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("version %d of model \"%s\" cannot be drawn as \"%s\"",
						subject->row.version, gk_model_name(subject->relation), picture->name),
				 errdetail("It has no %s.", missing)));
}

/* SQL: a picture of a model. */
Datum
gkmeans_plot(PG_FUNCTION_ARGS)
{
	const GkPicture *picture;
	GkSubject	subject;
	const char *svg;
	int			version = gk_version_argument(fcinfo, VERSION);
	int			width;
	int			height;
	bool		as_data_uri;

	if (PG_ARGISNULL(MODEL))
		PG_RETURN_NULL();
	picture = find_picture(gk_text_or(fcinfo, WHAT, "clusters"));
	width = length_argument(fcinfo, WIDTH, "width", USUAL_WIDTH, GK_LEAST_WIDTH);
	height = length_argument(fcinfo, HEIGHT, "height", USUAL_HEIGHT, GK_LEAST_HEIGHT);
	as_data_uri = is_data_uri(gk_text_or(fcinfo, FORMAT, "svg"));
	gk_open_subject(&subject, gk_open_model(PG_GETARG_OID(MODEL)));
	if (!gk_find_subject(&subject, version))
		gk_model_has_no_version(subject.relation, version);
	gk_read_subject(&subject);
	check_subject(&subject, picture);
	svg = gk_draw_picture(&subject, picture, width, height);
	gk_close_subject(&subject);
	relation_close(subject.relation, AccessShareLock);
	PG_RETURN_DATUM(in_format(svg, as_data_uri));
}

/* Draws a picture if nothing is missing; NULL and a WARNING if the version is damaged. */
static const char *
try_picture(GkSubject *subject, const GkPicture *picture)
{
	MemoryContext context = CurrentMemoryContext;
	const char *volatile svg = NULL;

	PG_TRY();
	{
		gk_read_subject(subject);
		if (picture->missing(subject) == NULL)
			svg = gk_draw_picture(subject, picture, USUAL_WIDTH, USUAL_HEIGHT);
	}
	PG_CATCH();
	{
		gk_end_damage(context, true);
	}
	PG_END_TRY();
	return svg;
}

/* SQL: a picture of the deployed version of a model, if the current user may see it. */
Datum
gk_visible_picture(PG_FUNCTION_ARGS)
{
	Relation	relation = gk_open_visible_model(PG_GETARG_OID(0));
	const GkPicture *picture = find_picture(text_to_cstring(PG_GETARG_TEXT_PP(1)));
	bool		as_data_uri = is_data_uri(text_to_cstring(PG_GETARG_TEXT_PP(2)));
	GkSubject	subject;
	const char *svg = NULL;

	if (relation == NULL)
		PG_RETURN_NULL();
	gk_open_subject(&subject, relation);
	if (gk_find_deployed_subject(&subject))
		svg = try_picture(&subject, picture);
	gk_close_subject(&subject);
	gk_close_visible_model(relation);
	if (svg == NULL)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(in_format(svg, as_data_uri));
}

/* Puts the names of the pictures that a version can be drawn as into a result. */
static void
put_names(GkSubject *subject, ReturnSetInfo *result)
{
	MemoryContext context = CurrentMemoryContext;
	volatile bool is_whole = true;

	PG_TRY();
	{
		gk_read_subject(subject);
	}
	PG_CATCH();
	{
		gk_end_damage(context, true);
		is_whole = false;
	}
	PG_END_TRY();
	for (const GkPicture *picture = gk_pictures; is_whole && picture->name != NULL; picture++)
	{
		Datum		value = CStringGetTextDatum(picture->name);
		bool		is_null = false;

		if (picture->missing(subject) == NULL)
			tuplestore_putvalues(result->setResult, result->setDesc, &value, &is_null);
	}
}

/* SQL: the pictures that the deployed version of a model can be drawn as. */
Datum
gk_visible_pictures(PG_FUNCTION_ARGS)
{
	Relation	relation = gk_open_visible_model(PG_GETARG_OID(0));
	GkSubject	subject;

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	if (relation == NULL)
		return (Datum) 0;
	gk_open_subject(&subject, relation);
	if (gk_find_deployed_subject(&subject))
		put_names(&subject, (ReturnSetInfo *) fcinfo->resultinfo);
	gk_close_subject(&subject);
	gk_close_visible_model(relation);
	return (Datum) 0;
}
