/*
 * The settings of the extension.
 */
#include "postgres.h"

#include <limits.h>

#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "parser/scansup.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/guc_tables.h"
#include "utils/syscache.h"
#include "utils/varlena.h"

#include "settings.h"

#define NODES_NAME "gkmeans.nodes"

/* The most servers in it, and the longest list: a setting that is checked cannot be cancelled. */
#define MOST_NODES 1000
#define LONGEST_LIST (256 * MOST_NODES)

/*
 * What the server says of a setting counts as well if the library is loaded in parallel mode, where
 * no fit runs.  Older minor releases do not have the flag.
 */
#ifdef GUC_ALLOW_IN_PARALLEL
#define ALWAYS GUC_ALLOW_IN_PARALLEL
#else
#define ALWAYS 0
#endif

/* The settings that only superusers may change. */
static const char *const limits[] = {
	"gkmeans.max_cpu_threads", "gkmeans.ring_size", "gkmeans.host_memory_limit",
	"gkmeans.total_host_memory_limit", "gkmeans.device_memory_limit", "gkmeans.devices",
	"gkmeans.max_gpu_backends"
};

static const struct config_enum_entry engine_choices[] = {
	{"auto", GK_ENGINE_AUTO, false},
	{"cpu", GK_ENGINE_CPU, false},
	{"cuda", GK_ENGINE_CUDA, false},
	{NULL, 0, false}
};

int			gk_engine_choice = GK_ENGINE_AUTO;
int			gk_cpu_threads = 0;
int			gk_max_cpu_threads = 0;
int			gk_queue_timeout_ms = 300 * 1000;
int			gk_ring_size_kb = 32 * 1024;
int			gk_host_memory_limit_kb = 0;
int			gk_total_host_memory_limit_kb = 0;
int			gk_device_memory_limit_kb = 0;
int			gk_max_gpu_backends = 8;
int			gk_model_cache_size_kb = 64 * 1024;

static char *devices = NULL;
static char *nodes = NULL;

/* Reads a list of device numbers; returns how many, -1 if it is not such a list. */
static int
read_devices(const char *list, int *numbers, int capacity)
{
	char	   *copy = pstrdup(list);
	List	   *names;
	ListCell   *cell;
	int			count = 0;

	if (strlen(list) > LONGEST_LIST || !SplitIdentifierString(copy, ',', &names))
		return -1;
	foreach(cell, names)
	{
		const char *name = lfirst(cell);
		long		number = strtol(name, NULL, 10);

		if (*name == '\0' || name[strspn(name, "0123456789")] != '\0' || number > INT_MAX ||
			count == capacity)
			return -1;
		for (int i = 0; i < count; i++)
			if (numbers[i] == number)
				return -1;
		numbers[count++] = (int) number;
	}
	return count;
}

/* True if a list is this one word. */
static bool
is_word(const char *list, const char *word)
{
	size_t		length = strlen(word);

	while (scanner_isspace(*list))
		list++;
	if (pg_strncasecmp(list, word, length) != 0)
		return false;
	for (list += length; scanner_isspace(*list);)
		list++;
	return *list == '\0';
}

/* True if a list means every device. */
static bool
means_all(const char *list)
{
	return is_word(list, "all");
}

/* Refuses what is neither empty, "all" nor a list of device numbers. */
static bool
check_devices(char **value, void **extra, GucSource source)
{
	int			numbers[GK_MAX_DEVICES];

	if (*value == NULL || means_all(*value) ||
		read_devices(*value, numbers, GK_MAX_DEVICES) >= 0)
		return true;
	GUC_check_errdetail("It is a list of at most %d different device numbers, \"all\", or empty.",
						GK_MAX_DEVICES);
	return false;
}

/* Sets a parameter of the server until the nest level of settings ends. */
void
gk_set_locally(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0,
							 false);
}

/* The devices that gkmeans.devices names; 0 if it leaves the choice open, or names all. */
int
gk_named_devices(int *numbers, int capacity)
{
	return devices == NULL || means_all(devices) ? 0 : read_devices(devices, numbers, capacity);
}

/* True if gkmeans.devices asks for every device. */
bool
gk_all_devices_named(void)
{
	return devices != NULL && means_all(devices);
}

/* Refuses what is neither empty, "auto" nor a list of different names, not too many. */
static bool
check_nodes(char **value, void **extra, GucSource source)
{
	List	   *names = NIL;
	List	   *seen = NIL;
	ListCell   *cell;
	bool		good = *value == NULL ||
		(strlen(*value) <= LONGEST_LIST && SplitIdentifierString(pstrdup(*value), ',', &names) &&
		 list_length(names) <= MOST_NODES);

	foreach(cell, good ? names : NIL)
	{
		ListCell   *other;

		foreach(other, seen)
			good = good && strcmp(lfirst(cell), lfirst(other)) != 0;
		seen = lappend(seen, lfirst(cell));
	}
	if (!good)
		GUC_check_errdetail("It is a list of different foreign servers, at most %d, \"auto\", or "
							"empty.", MOST_NODES);
	return good;
}

/* The foreign servers that gkmeans.nodes names. */
List *
gk_named_nodes(bool *automatic)
{
	List	   *names = NIL;

	if (nodes != NULL && !SplitIdentifierString(pstrdup(nodes), ',', &names))
		elog(ERROR, "gkmeans.nodes is not a list");
	*automatic = list_length(names) == 1 && is_word(nodes, "auto");
	return *automatic ? NIL : names;
}

/* What PostgreSQL knows of a setting; NULL if it knows nothing. */
static const struct config_generic *
find_variable(const char *name)
{
#if PG_VERSION_NUM >= 160000
	return find_option(name, false, true, DEBUG5);
#else
	struct config_generic **variables = get_guc_variables();

	for (int i = 0; i < GetNumConfigOptions(); i++)
		if (pg_strcasecmp(variables[i]->name, name) == 0)
			return variables[i];
	return NULL;
#endif
}

/* What PostgreSQL knows of gkmeans.nodes. */
static const struct config_generic *
nodes_variable(void)
{
	const struct config_generic *variable = find_variable(NODES_NAME);

	if (variable == NULL)
		elog(ERROR, "there is no setting " NODES_NAME);
	return variable;
}

/* The owner of this database. */
static Oid
database_owner(void)
{
	HeapTuple	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(MyDatabaseId));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for database %u", MyDatabaseId);
	owner = ((Form_pg_database) GETSTRUCT(tuple))->datdba;
	ReleaseSysCache(tuple);
	return owner;
}

/* The role that has set gkmeans.nodes; PostgreSQL counts what catalogs hold as a superuser's. */
Oid
gk_nodes_setter(void)
{
	const struct config_generic *variable = nodes_variable();

	if (variable->source == PGC_S_DATABASE)
		return database_owner();
	if (variable->source == PGC_S_USER || variable->source == PGC_S_DATABASE_USER)
		return GetAuthenticatedUserId();
	return variable->srole;
}

/*
 * Refuses a limit that comes with the connection of a role that may not set it.  PostgreSQL would
 * leave it out with a WARNING, and what the server says of the setting is forgotten by then.
 */
static void
check_limits(void)
{
	for (int i = 0; i < (int) lengthof(limits); i++)
	{
		const struct config_generic *given = find_variable(limits[i]);

		if (given != NULL && given->reset_source == PGC_S_CLIENT &&
			pg_parameter_aclcheck(limits[i], given->reset_srole, ACL_SET) != ACLCHECK_OK)
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("permission denied to set parameter \"%s\"", limits[i]),
					 errdetail("An option of the connection sets it."),
					 errhint("Connect without that option.")));
	}
}

/* The settings that say how a fit runs. */
static void
define_user_settings(void)
{
	DefineCustomEnumVariable("gkmeans.engine",
							 "Engine that clusters the rows.",
							 "\"auto\" takes the GPUs if they are expected to finish sooner "
							 "than the CPUs.",
							 &gk_engine_choice, GK_ENGINE_AUTO, engine_choices,
							 PGC_USERSET, ALWAYS, NULL, NULL, NULL);
	DefineCustomIntVariable("gkmeans.cpu_threads",
							"Threads of the CPU engine.",
							"0 means one for each core that the backend may use.",
							&gk_cpu_threads, 0, 0, 1024,
							PGC_USERSET, ALWAYS, NULL, NULL, NULL);
	DefineCustomIntVariable("gkmeans.queue_timeout",
							"Maximum time that a fit waits for a GPU slot.",
							"0 means no limit.",
							&gk_queue_timeout_ms, 300 * 1000, 0, INT_MAX,
							PGC_USERSET, GUC_UNIT_MS | ALWAYS, NULL, NULL, NULL);
	DefineCustomStringVariable(NODES_NAME,
							   "Servers that read the rows of a fit and compute with them.",
							   "A list of foreign servers, \"auto\" for those that have the rows "
							   "of the source, or empty for this server alone.",
							   &nodes, "",
							   PGC_USERSET, ALWAYS, check_nodes, NULL, NULL);
	DefineCustomIntVariable("gkmeans.model_cache_size",
							"Memory in which a session keeps the models that it scores with.",
							"0 means that no model is kept between statements.",
							&gk_model_cache_size_kb, 64 * 1024, 0, INT_MAX,
							PGC_USERSET, GUC_UNIT_KB | ALWAYS, NULL, NULL, NULL);
}

/* The settings that limit what fits may take of the host; only superusers may change them. */
static void
define_host_limits(void)
{
	DefineCustomIntVariable("gkmeans.max_cpu_threads",
							"Upper limit for gkmeans.cpu_threads.",
							"0 means two for each core of the host, or 16 if that is more.",
							&gk_max_cpu_threads, 0, 0, 1024,
							PGC_SUSET, ALWAYS, NULL, NULL, NULL);
	DefineCustomIntVariable("gkmeans.ring_size",
							"Shared memory through which the rows of a fit reach the engine.",
							NULL,
							&gk_ring_size_kb, 32 * 1024, 1024, 1024 * 1024,
							PGC_SUSET, GUC_UNIT_KB | ALWAYS, NULL, NULL, NULL);
	DefineCustomIntVariable("gkmeans.host_memory_limit",
							"Host memory that the rows of one fit may use.",
							"0 means three quarters of the memory of the host or container.",
							&gk_host_memory_limit_kb, 0, 0, INT_MAX,
							PGC_SUSET, GUC_UNIT_KB | ALWAYS, NULL, NULL, NULL);
	DefineCustomIntVariable("gkmeans.total_host_memory_limit",
							"Host memory that the rows of all fits of the server may use "
							"together.",
							"0 means three quarters of the memory of the host or container, "
							"or gkmeans.host_memory_limit if that is more.",
							&gk_total_host_memory_limit_kb, 0, 0, INT_MAX,
							PGC_SUSET, GUC_UNIT_KB | ALWAYS, NULL, NULL, NULL);
}

/* The settings that limit what a fit may take of the GPUs, and the one for tests. */
static void
define_device_limits(void)
{
	DefineCustomIntVariable("gkmeans.device_memory_limit",
							"Memory that one fit may use on each GPU.",
							"0 means all free memory. "
							"Rows beyond it are streamed from host memory.",
							&gk_device_memory_limit_kb, 0, 0, INT_MAX,
							PGC_SUSET, GUC_UNIT_KB | ALWAYS, NULL, NULL, NULL);
	DefineCustomStringVariable("gkmeans.devices",
							   "GPUs that a fit runs on.",
							   "A list of numbers, \"all\", or empty for as many as are "
							   "worthwhile.",
							   &devices, "",
							   PGC_SUSET, ALWAYS, check_devices, NULL, NULL);
	DefineCustomIntVariable("gkmeans.max_gpu_backends",
							"Number of backends that may use the GPUs at the same time.",
							"0 means no limit.",
							&gk_max_gpu_backends, 8, 0, GK_MAX_GPU_BACKENDS,
							PGC_SUSET, ALWAYS, NULL, NULL, NULL);
}

/* Defines the settings; once, from _PG_init. */
void
gk_define_settings(void)
{
	check_limits();
	define_user_settings();
	define_host_limits();
	define_device_limits();
	MarkGUCPrefixReserved("gkmeans");
}
