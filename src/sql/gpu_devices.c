/*
 * The SQL function gkmeans_devices.
 */
#include "postgres.h"

#include "funcapi.h"
#include "utils/builtins.h"

#include "cuda_library.h"
#include "engine_error.h"
#include "sql_function.h"

GK_SQL_FUNCTION(gkmeans_devices);

/* SQL: the GPUs of the host. */
Datum
gkmeans_devices(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	GkDevice	devices[GK_MAX_DEVICES];
	int			count = 0;
	const char *reason;
	const GkEngineClass *engine_class;
	GkStatus	status;

	InitMaterializedSRF(fcinfo, 0);
	engine_class = gk_cuda_class(&reason);
	if (engine_class == NULL)
		return (Datum) 0;
	status = engine_class->list_devices(devices, GK_MAX_DEVICES, &count);
	if (status.code == GK_NO_DEVICE)
		return (Datum) 0;
	gk_check(status);
	for (int i = 0; i < Min(count, GK_MAX_DEVICES); i++)
	{
		const GkDevice *device = &devices[i];
		Datum		values[6];
		bool		nulls[6] = {0};

		values[0] = Int32GetDatum(device->number);
		values[1] = CStringGetTextDatum(device->name);
		values[2] = CStringGetTextDatum(psprintf("%d.%d", device->major, device->minor));
		values[3] = Int64GetDatum((int64) device->total_bytes);
		values[4] = Int64GetDatum((int64) device->free_bytes);
		nulls[4] = !device->open;
		values[5] = Int64GetDatum((int64) device->own_bytes);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}
