/* The part of the simulated NVML that is about GPM (true utilisation), health and Xid events; included by nvml_sim.c.
 *
 * Lines of its own, after `gpu` or `mig`:
 *   gpm ID VALUE        a GPM metric (nvmlGpmMetricId_t) and its value, which may be above 100, or nan; a unit without
 *                       one does not support GPM
 *   xid SERIAL CODE     an Xid with a number that grows; event sets that were made before it tell it once
 */

#include <time.h>

enum { TIMEOUT = 10, XID_CRITICAL = 8, MAX_WATCHED = 512, MAX_SETS = 16, ALL_INSTANCES = 0xFFFFFFFF };

/* ---- GPM ---- */

struct gpm_sample {
    char uuid[TEXT]; /* empty until the sample was taken */
    int order;
};

struct gpm_metric {
    unsigned id;
    int code;
    double value;
    char *short_name, *long_name, *unit;
};

struct gpm_metrics {
    unsigned version, count;
    struct gpm_sample *sample1, *sample2;
    struct gpm_metric metrics[];
};

struct gpm_support {
    unsigned version, is_supported;
};

static int gpm_order;

int nvmlGpmQueryDeviceSupport(struct handle *handle, struct gpm_support *out)
{
    struct unit *unit = NULL;
    int code = enter_unit(__func__, handle, &unit);
    if (code == SUCCESS && out->version != 1)
        code = ARGUMENT_VERSION_MISMATCH;
    if (code == SUCCESS)
        out->is_supported = unit->gpm_count > 0;
    return leave(code);
}

int nvmlGpmSampleAlloc(struct gpm_sample **out)
{
    int code = enter_initialised(__func__);
    if (code == SUCCESS)
        *out = calloc(1, sizeof **out);
    return leave(code);
}

int nvmlGpmSampleFree(struct gpm_sample *sample)
{
    int code = enter_initialised(__func__);
    if (code == SUCCESS)
        free(sample);
    return leave(code);
}

static int take(const struct unit *unit, struct gpm_sample *sample)
{
    if (!unit->gpm_count)
        return NOT_SUPPORTED;
    copy(sample->uuid, unit->uuid, TEXT);
    sample->order = ++gpm_order;
    return SUCCESS;
}

int nvmlGpmSampleGet(struct handle *handle, struct gpm_sample *sample)
{
    struct unit *unit = NULL;
    int code = enter_unit(__func__, handle, &unit);
    return leave(code == SUCCESS ? take(unit, sample) : code);
}

int nvmlGpmMigSampleGet(struct handle *handle, unsigned gpu_instance, struct gpm_sample *sample)
{
    struct unit *unit = NULL;
    int code = enter_unit(__func__, handle, &unit);
    if (code != SUCCESS)
        return leave(code);
    for (int i = 0; i < unit_count; ++i)
        if (units[i].parent == unit && units[i].value[GPU_INSTANCE] == gpu_instance)
            return leave(take(&units[i], sample));
    return leave(NOT_FOUND);
}

int nvmlGpmMetricsGet(struct gpm_metrics *get)
{
    int code = enter_initialised(__func__);
    if (code == SUCCESS && get->version != 1)
        code = ARGUMENT_VERSION_MISMATCH;
    struct unit *unit = code == SUCCESS ? find(get->sample1->uuid) : NULL;
    if (code == SUCCESS &&
        (!unit || strcmp(get->sample1->uuid, get->sample2->uuid) != 0 || get->sample1->order >= get->sample2->order))
        code = INVALID_ARGUMENT;
    for (unsigned i = 0; code == SUCCESS && i < get->count; ++i) {
        get->metrics[i].code = NOT_SUPPORTED;
        for (int known = 0; known < unit->gpm_count; ++known)
            if (unit->gpm_ids[known] == get->metrics[i].id) {
                get->metrics[i].code = SUCCESS;
                get->metrics[i].value = unit->gpm_values[known];
            }
    }
    return leave(code);
}

/* ---- health ---- */

int nvmlDeviceGetTotalEccErrors(struct handle *handle, int uncorrected, int aggregate, unsigned long long *out)
{
    enum figure figure = aggregate ? (uncorrected ? ECC_UNCORRECTED_EVER : ECC_CORRECTED_EVER)
                                   : (uncorrected ? ECC_UNCORRECTED : ECC_CORRECTED);
    return give_long(__func__, handle, figure, out);
}

int nvmlDeviceGetRemappedRows(struct handle *handle, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
                              unsigned *failed)
{
    struct unit *unit = NULL;
    int code = enter_unit(__func__, handle, &unit);
    if (code == SUCCESS && !unit->present[REMAPPED_CORRECTED])
        code = NOT_SUPPORTED;
    if (code == SUCCESS) {
        *corrected = (unsigned)unit->value[REMAPPED_CORRECTED];
        *uncorrected = (unsigned)unit->value[REMAPPED_UNCORRECTED];
        *pending = (unsigned)unit->value[REMAP_PENDING];
        *failed = (unsigned)unit->value[REMAP_FAILED];
    }
    return leave(code);
}

int nvmlDeviceGetCurrPcieLinkGeneration(struct handle *handle, unsigned *out)
{
    return give(__func__, handle, PCIE_GEN, out);
}

int nvmlDeviceGetMaxPcieLinkGeneration(struct handle *handle, unsigned *out)
{
    return give(__func__, handle, PCIE_GEN_MAX, out);
}

int nvmlDeviceGetCurrPcieLinkWidth(struct handle *handle, unsigned *out)
{
    return give(__func__, handle, PCIE_WIDTH, out);
}

int nvmlDeviceGetMaxPcieLinkWidth(struct handle *handle, unsigned *out)
{
    return give(__func__, handle, PCIE_WIDTH_MAX, out);
}

int nvmlDeviceGetPerformanceState(struct handle *handle, unsigned *out)
{
    return give(__func__, handle, PSTATE, out);
}

int nvmlDeviceGetTemperatureThreshold(struct handle *handle, unsigned kind, unsigned *out)
{
    enum { MEMORY_MAX = 2 };
    if (kind == MEMORY_MAX)
        return give(__func__, handle, MEMORY_TEMPERATURE_MAX, out);
    struct unit *unit = NULL;
    int code = enter_unit(__func__, handle, &unit);
    if (code == SUCCESS)
        *out = kind == 0 ? 95 : 90;
    return leave(code);
}

int nvmlSystemGetCudaDriverVersion_v2(int *out)
{
    int code = enter_initialised(__func__);
    if (code == SUCCESS && !cuda_version)
        code = NOT_SUPPORTED;
    if (code == SUCCESS)
        *out = cuda_version;
    return leave(code);
}

struct field_value {
    unsigned id, scope;
    long long timestamp, latency_us;
    int type, code;
    union {
        unsigned number;
        unsigned long long long_number;
    } value;
};

int nvmlDeviceGetFieldValues(struct handle *handle, int count, struct field_value *values)
{
    enum { UNSIGNED_INT = 1, UNSIGNED_LONG_LONG = 3, NVLINK_CRC = 38, NVLINK_REPLAY = 52, NVLINK_RECOVERY = 59, MEMORY_TEMP = 82 };
    struct unit *unit = NULL;
    int code = enter_unit(__func__, handle, &unit);
    for (int i = 0; code == SUCCESS && i < count; ++i) {
        enum figure figure = FIGURES;
        switch (values[i].id) {
        case NVLINK_CRC:
            figure = NVLINK_CRC_ERRORS;
            break;
        case NVLINK_REPLAY:
            figure = NVLINK_REPLAYS;
            break;
        case NVLINK_RECOVERY:
            figure = NVLINK_RECOVERIES;
            break;
        case MEMORY_TEMP:
            figure = MEMORY_TEMPERATURE;
            break;
        }
        values[i].code = figure != FIGURES && unit->present[figure] ? SUCCESS : NOT_SUPPORTED;
        values[i].type = figure == MEMORY_TEMPERATURE ? UNSIGNED_INT : UNSIGNED_LONG_LONG;
        values[i].value.long_number = 0;
        if (values[i].code == SUCCESS && figure == MEMORY_TEMPERATURE)
            values[i].value.number = (unsigned)unit->value[figure];
        else if (values[i].code == SUCCESS)
            values[i].value.long_number = unit->value[figure];
    }
    return leave(code);
}

/* ---- Xid events ---- */

struct event_set {
    struct handle *watched[MAX_WATCHED];
    int seen[MAX_WATCHED]; /* the last Xid's number */
    int count;
};

struct event_data {
    struct handle *device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
};

static int last_serial(const struct unit *unit)
{
    return unit->xid_count ? unit->xid_serials[unit->xid_count - 1] : 0;
}

int nvmlEventSetCreate(struct event_set **out)
{
    int code = enter_initialised(__func__);
    if (code == SUCCESS)
        *out = calloc(1, sizeof **out);
    return leave(code);
}

int nvmlEventSetFree(struct event_set *set)
{
    int code = enter_initialised(__func__);
    if (code == SUCCESS)
        free(set);
    return leave(code);
}

int nvmlDeviceRegisterEvents(struct handle *handle, unsigned long long types, struct event_set *set)
{
    struct unit *unit = NULL;
    int code = enter_unit(__func__, handle, &unit);
    if (code == SUCCESS && (types != XID_CRITICAL || unit->parent || set->count == MAX_WATCHED))
        code = INVALID_ARGUMENT;
    if (code == SUCCESS) {
        set->watched[set->count] = handle;
        set->seen[set->count++] = last_serial(unit);
    }
    return leave(code);
}

/* Whether there is an Xid that `set` has not told. */
static int next_xid(struct event_set *set, struct event_data *out)
{
    for (int i = 0; i < set->count; ++i) {
        const struct unit *unit = find(set->watched[i]->uuid);
        for (int n = 0; unit && n < unit->xid_count; ++n)
            if (unit->xid_serials[n] > set->seen[i]) {
                set->seen[i] = unit->xid_serials[n];
                *out = (struct event_data){set->watched[i], XID_CRITICAL, unit->xid_codes[n], ALL_INSTANCES, ALL_INSTANCES};
                return 1;
            }
    }
    return 0;
}

static int is_any_lost(const struct event_set *set)
{
    for (int i = 0; i < set->count; ++i)
        if (find(set->watched[i]->uuid) && is_lost(find(set->watched[i]->uuid)))
            return 1;
    return 0;
}

int nvmlEventSetWait_v2(struct event_set *set, struct event_data *out, unsigned timeout_ms)
{
    int code = enter_initialised(__func__);
    for (unsigned waited_ms = 0; code == SUCCESS && !next_xid(set, out); waited_ms += 10) {
        if (is_any_lost(set))
            return leave(GPU_IS_LOST);
        if (waited_ms >= timeout_ms)
            return leave(TIMEOUT);
        hang();
    }
    return leave(code);
}
