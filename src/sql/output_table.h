/*
 * A table that a function creates or writes: the checks before its work begins.
 */
#ifndef GK_OUTPUT_TABLE_H
#define GK_OUTPUT_TABLE_H

#include "postgres.h"

#include "nodes/nodes.h"
#include "nodes/parsenodes.h"

/* A table by its name. */
typedef struct GkOutputTable
{
	RangeVar   *variable;		/* qualified */
	char	   *name;			/* the same, quoted */
	Oid			relation_id;	/* that was checked; InvalidOid = none, or it is not there */
	Oid			read_id;		/* another one that commands may read beside it */
	bool		expected_new;	/* nothing was said of a table that is there already */
} GkOutputTable;

/* A column that is written. */
typedef struct GkOutputColumn
{
	const char *name;
	Oid			type;
} GkOutputColumn;

/* What ids are compared by. */
typedef struct GkComparison
{
	Oid			operator;
	Oid			collation;		/* InvalidOid = that of their type */
} GkComparison;

/* The table that an argument names; in the current memory context. */
extern void gk_output_table(GkOutputTable *table, const char *argument, const char *name);

/* Raises 42710 if a table or view cannot be made because a type has its name; see CREATE TABLE. */
extern void gk_check_type_name(const char *name, Oid schema);

/* Raises the error that CREATE TABLE would, for lack of privileges or because of the name. */
extern void gk_check_place(RangeVar *name);

/*
 * Raises the error that CREATE TABLE would, for lack of privileges or because of the name or
 * type of the first column.
 */
extern void gk_check_creation(const GkOutputTable *table, const char *id_name, Oid id_type);

/*
 * Raises 42501 if the current user lacks USAGE on a schema, of which a command will name something;
 * nothing if there is none.
 */
extern void gk_check_schema(Oid schema);
extern void gk_check_schema_of_type(Oid type);

/* Raises 42809 unless the relation is a table. */
extern void gk_check_is_table(const GkOutputTable *table, Oid relation_id);

/*
 * Raises 42501 if the table, which was expected to be new, is there and belongs to a role that
 * could not act as the current user, who is not a member of it, or is a superuser: its triggers
 * would run as the current user, and its owner read what is written.
 */
extern void gk_check_maker(const GkOutputTable *table);

/*
 * Raises the error that INSERT or DELETE would if a foreign table does not take it: 0A000, or 55000
 * if its options say so.  DELETE reaches partitions and children, INSERT perhaps none of them.
 */
extern void gk_check_foreign(Oid relation_id, CmdType command);

/*
 * Raises the error that INSERT would: 42804 for columns of other types, 428C9 for generated ones,
 * 42501 for a lack of privileges, and those of gk_check_foreign().  The columns must be there.
 */
extern void gk_check_insert(Oid relation_id, const GkOutputColumn *columns, int count);

/*
 * Raises 42501 unless the current role has a privilege on the whole table, or on all these columns
 * if there are any.
 */
extern void gk_check_privilege(Oid relation_id, AclMode privilege, const GkOutputColumn *columns,
							   int count);

/*
 * Raises 0A000 if Citus distributes the rows of the table by another column than that one: Citus
 * takes no row without a value of it.
 */
extern void gk_check_distribution(Oid relation_id, const char *column);

/*
 * Raises 0A000 if rows of the table, of a partition or of a child can be neither updated nor
 * deleted: Citus' columnar tables.  The hint names the argument that asks for it.
 */
extern void gk_check_changeable(Oid relation_id, const char *argument);

/*
 * Raises the error that UPDATE or DELETE would, 55000, if a publication has the table, a partition
 * or a child, and nothing identifies its rows.  Tables of Citus are left to it.
 */
extern void gk_check_published(Oid relation_id, CmdType command);

/* Runs a command; returns how many rows it affected.  SPI must be connected. */
extern int64 gk_execute(const char *command);

/* Raises 55000: the name of a table means another one than that which was checked. */
__attribute__((noreturn))
extern void gk_raise_replaced(const GkOutputTable *table, const char *detail);

/* The table that has the name of one that was there; 55000 if none has it any more. */
extern Oid	gk_table_of_name(const GkOutputTable *table);

/*
 * Makes a table whose first column has the ids; `rest` is what follows their type, and its access
 * method, NULL = the default one, which may keep rows that cannot be changed.  Raises 55000 if
 * the name of that type, or of the table, means something else by then: the schema of a type, too,
 * is renamed without waiting for anybody, and the CHECK of a domain would run as the caller.
 */
extern void gk_make_table(GkOutputTable *table, const GkOutputColumn *ids, const char *rest,
						  const char *method);

/*
 * Raises that error unless the current role owns the table, which was not there when the call
 * began: what its triggers do, they do as this role.
 */
extern void gk_check_own(const GkOutputTable *table);

/*
 * Runs a command that names a table, to change it.  Raises 55000, before anything of it runs, if
 * the name means another table than the one that was checked, or a view.  Likewise if it reads
 * another one, or compares by another collation, or by another operator than PostgreSQL's own and
 * this one; NULL = it compares nothing, but the source that it may read can.
 */
extern int64 gk_execute_on(const GkOutputTable *table, const char *command,
						   const GkComparison *comparison, int count, Oid *types, Datum *values,
						   const char *nulls);

/* Empties a table; raises 55000, before its triggers run, if the name means another one. */
extern void gk_truncate(const GkOutputTable *table);

#endif							/* GK_OUTPUT_TABLE_H */
