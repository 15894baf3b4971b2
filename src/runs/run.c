/*
 * The record of a run: a row of the model that shows its state, and a notification.
 */
#include "postgres.h"

#include <math.h>

#include "access/relation.h"
#include "commands/async.h"
#include "common/shortest_dec.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/json.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "definition.h"
#include "draft.h"
#include "model_writes.h"
#include "output_table.h"
#include "run.h"
#include "running.h"
#include "target.h"

/* The most bytes of a message or DETAIL that are kept. */
#define MOST_MESSAGE 10000

/* Connects to SPI. */
static void
connect_spi(void)
{
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "could not connect to SPI");
}

/* The runs but one that are recorded as running. */
#define RUNNING "status OPERATOR(pg_catalog.=) 'running' AND version OPERATOR(pg_catalog.<>) $1"

/* True if there are such runs; those that have ended since the snapshot are none. */
static bool
has_running(Relation relation, int but)
{
	GkHeads    *heads;
	bool		found = false;

	PushActiveSnapshot(GetLatestSnapshot());
	heads = gk_begin_heads(relation);
	while (!found && gk_next_head(heads))
	{
		GkModelRow	row;

		CHECK_FOR_INTERRUPTS();
		gk_open_row(&row, relation, gk_head(heads));
		found = row.version != but && gk_row_has_status(&row, "running");
	}
	gk_end_heads(heads);
	PopActiveSnapshot();
	return found;
}

/*
 * Marks runs as failed that are recorded as running but are not: whoever has the lock of the model
 * is the only one.  When they ended is not known.
 */
void
gk_mark_lost(Relation relation, int but)
{
	Oid			relation_id = RelationGetRelid(relation);
	Oid			type = INT4OID;
	Datum		value = Int32GetDatum(but);

	if (!has_running(relation, but))
		return;
	gk_change_model(relation_id,
					psprintf("UPDATE ONLY %s SET status = 'failed',"
							 " outcome = 'lost: its session ended before the run did',"
							 " error_message = 'its session ended before the run did'"
							 " WHERE " RUNNING, gk_quoted_model_name(relation_id)),
					SPI_OK_UPDATE, 1, &type, &value);
}

/* Records who runs it. */
static char *
describe_session(void)
{
	return psprintf("{\"pid\": %d, \"backend_start\": \"%s\"}", MyProcPid,
					timestamptz_to_str(MyStartTimestamp));
}

/* Writes the row of a beginning run; returns its version. */
static int
insert_running(Relation relation, const Jsonb *definition, const GkOwner *owner, const char *note)
{
	int			version = gk_next_version(RelationGetRelid(relation));
	GkDraft		draft;

	gk_begin_draft(&draft);
	gk_draft_begun(&draft);
	gk_draft_set(&draft, GK_MODEL_VERSION, Int32GetDatum(version));
	gk_draft_text(&draft, GK_MODEL_STATUS, "running");
	gk_draft_text(&draft, GK_MODEL_STARTED_BY, GetUserNameFromId(owner->caller, false));
	gk_draft_text(&draft, GK_MODEL_NOTE, note);
	gk_draft_set(&draft, GK_MODEL_DEFINITION, JsonbPGetDatum(definition));
	gk_draft_json(&draft, GK_MODEL_REPORT, describe_session());
	gk_insert_draft(&draft, RelationGetRelid(relation));
	return version;
}

/* Records the beginning of a run. */
int
gk_enter_run(Oid relation_id, const char *note)
{
	Relation	relation;
	GkOwner		owner;
	Jsonb	   *definition;
	int			version;

	gk_open_as_owner(relation_id, &relation, &owner);
	gk_check_published(relation_id, CMD_UPDATE);
	LockRelationIdForSession(&relation->rd_lockInfo.lockRelId, ShareUpdateExclusiveLock);
	definition = gk_model_definition(relation);
	gk_use_definition_path(definition);
	connect_spi();
	gk_mark_lost(relation, 0);
	version = insert_running(relation, definition, &owner, note);
	SPI_finish();
	gk_begin_running(relation_id, version);
	gk_close_as_owner(relation, &owner);
	return version;
}

/* Ends the run with the transaction. */
void
gk_leave_run(Oid relation_id, int version)
{
	LockRelId	id = {relation_id, MyDatabaseId};

	gk_end_running(relation_id, version);
	LockRelationOid(relation_id, ShareUpdateExclusiveLock);
	UnlockRelationIdForSession(&id, ShareUpdateExclusiveLock);
}

/* The beginning of a message, which may quote a whole value; a function in C may leave it out. */
static const char *
beginning_of(const char *message)
{
	int			length;

	if (message == NULL)
		return "missing error text";
	length = (int) strlen(message);
	if (length <= MOST_MESSAGE)
		return message;
	return psprintf("%.*s...", pg_mbcliplen(message, length, MOST_MESSAGE), message);
}

/* The row of a run that failed. */
static void
draft_failure(GkDraft *draft, const ErrorData *error, const char *status)
{
	const char *message = beginning_of(error->message);

	gk_begin_draft(draft);
	gk_draft_text(draft, GK_MODEL_STATUS, status);
	gk_draft_set(draft, GK_MODEL_FINISHED_AT, TimestampTzGetDatum(GetCurrentTimestamp()));
	gk_draft_text(draft, GK_MODEL_OUTCOME, psprintf("%s: %s", status, message));
	gk_draft_text(draft, GK_MODEL_ERROR_CODE, unpack_sql_state(error->sqlerrcode));
	gk_draft_text(draft, GK_MODEL_ERROR_MESSAGE, error->detail == NULL ? message
				  : psprintf("%s\n%s", message, beginning_of(error->detail)));
}

/* Records that a run failed. */
void
gk_record_failure(Oid relation_id, int version, const ErrorData *error, bool tells)
{
	bool		is_cancelled = error->sqlerrcode == ERRCODE_QUERY_CANCELED;
	GkNews		news = {.version = version,.status = is_cancelled ? "cancelled" : "failed",
		.psi = NAN,.moved = -1,.error_code = unpack_sql_state(error->sqlerrcode)};
	GkDraft		draft;
	GkOwner		owner;
	Relation	relation;
	Jsonb	   *definition;

	news.error_code = pstrdup(news.error_code);
	/* if the transaction of the run has ended with its locks, another run may be under way */
	relation = gk_open_as_owner_at_once(relation_id, &owner);
	definition = gk_model_definition(relation);
	gk_use_definition_path(definition);
	connect_spi();
	draft_failure(&draft, error, news.status);
	gk_update_draft(&draft, RelationGetRelid(relation), version);
	SPI_finish();
	if (tells)
		gk_tell(relation, definition, &news);
	gk_close_as_owner(relation, &owner);
}

/* Appends a number, null if unknown. */
static void
append_number(StringInfo json, double number)
{
	char		digits[DOUBLE_SHORTEST_DECIMAL_LEN] = "null";

	if (isfinite(number))
		double_to_shortest_decimal_buf(number, digits);
	appendStringInfoString(json, digits);
}

/* Sends the notification. */
void
gk_tell(Relation relation, const Jsonb *definition, const GkNews *news)
{
	const char *channel = gk_definition_text(definition, "notify");
	StringInfoData json;

	if (channel == NULL)
		return;
	initStringInfo(&json);
	appendStringInfoString(&json, "{\"model\":");
	escape_json(&json, gk_quoted_model_name(RelationGetRelid(relation)));
	appendStringInfo(&json, ",\"version\":%d,\"status\":\"%s\",\"deployed\":%s,\"psi\":",
					 news->version, news->status, news->deployed ? "true" : "false");
	append_number(&json, news->psi);
	appendStringInfoString(&json, ",\"moved\":");
	append_number(&json, news->moved < 0 ? NAN : (double) news->moved);
	if (news->error_code != NULL)
		appendStringInfo(&json, ",\"error_code\":\"%s\"", news->error_code);
	appendStringInfoChar(&json, '}');
	Async_Notify(channel, json.data);
}
