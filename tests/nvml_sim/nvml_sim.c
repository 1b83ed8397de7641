/* A simulated NVML: libnvidia-ml.so.1 whose GPUs are described by a text file.
 *
 * The environment variable GMG_NVML_SIM names the file. It is read again whenever it was replaced, so that a test can
 * change what the GPUs report while a program runs. Without the file the library behaves as without a driver.
 *
 * The file holds one `key value` per line. Before the first GPU:
 *   driver VERSION      what nvmlSystemGetDriverVersion reports
 *   cuda_version N      what nvmlSystemGetCudaDriverVersion_v2 reports: 12080 for 12.8
 *   error CODE          every call returns this nvmlReturn_t: 9 no driver, 4 too few rights, 18 version mismatch
 *   epoch N             a process that initialised at another epoch gets NVML_ERROR_UNINITIALIZED until it does so anew
 *   delay_ms N          every call takes this long, as on a slow GPU
 *   hangs 1             no call returns until the file says otherwise
 *   log PATH            every call appends the name of its function to this file
 *   fail FUNCTION CODE  this function returns CODE, or hangs where that is -1; after `gpu` or `mig`: for that GPU or
 *                       instance only
 * `gpu` begins a GPU, `mig INDEX` an instance of the GPU above; what follows belongs to it:
 *   uuid, name, pci_bus_id        strings
 *   process KIND PID BYTES        KIND is compute or graphics; BYTES -1 stands for "not available"
 *   lost 1                        the GPU is lost; handles used meanwhile stay dead, as with the real library
 *   a key of figure_keys below    an unsigned number; a figure that is absent is NVML_ERROR_NOT_SUPPORTED
 *   gpm, xid                      see activity_and_health.c
 */

#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    HANGS = -1, /* not of NVML: no answer until the file says otherwise */
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    GPU_IS_LOST = 15,
    ARGUMENT_VERSION_MISMATCH = 25,
};

enum figure {
    MEMORY_TOTAL,
    MEMORY_USED,
    MEMORY_RESERVED,
    GPU_UTIL,
    MEMORY_UTIL,
    TEMPERATURE,
    POWER,
    POWER_LIMIT,
    SM_CLOCK,
    SM_CLOCK_MAX,
    THROTTLE,
    FAN,
    PCIE_RX,
    PCIE_TX,
    ENERGY,
    PERSISTENCE,
    MIG_MODE,
    GPU_INSTANCE,
    LOST,
    ECC_CORRECTED,
    ECC_UNCORRECTED,
    ECC_CORRECTED_EVER,
    ECC_UNCORRECTED_EVER,
    REMAPPED_CORRECTED,
    REMAPPED_UNCORRECTED,
    REMAP_PENDING,
    REMAP_FAILED,
    MEMORY_TEMPERATURE,
    MEMORY_TEMPERATURE_MAX,
    PCIE_GEN,
    PCIE_GEN_MAX,
    PCIE_WIDTH,
    PCIE_WIDTH_MAX,
    PSTATE,
    NVLINK_CRC_ERRORS,
    NVLINK_REPLAYS,
    NVLINK_RECOVERIES,
    FIGURES,
};

static const char *const figure_keys[FIGURES] = {
    "memory_total_bytes", "memory_used_bytes", "memory_reserved_bytes",
    "gpu_util_pct",       "memory_util_pct",   "temperature_c",
    "power_mw",           "power_limit_mw",    "sm_clock_mhz",
    "sm_clock_max_mhz",   "throttle_mask",     "fan_pct",
    "pcie_rx_kb_s",       "pcie_tx_kb_s",      "energy_mj",
    "persistence",        "mig_mode",          "gpu_instance",
    "lost",
    "ecc_corrected",
    "ecc_uncorrected",
    "ecc_corrected_ever",
    "ecc_uncorrected_ever",
    "remapped_corrected",
    "remapped_uncorrected",
    "remap_pending",
    "remap_failed",
    "memory_temperature",
    "memory_temperature_max",
    "pcie_gen",
    "pcie_gen_max",
    "pcie_width",
    "pcie_width_max",
    "pstate",
    "nvlink_crc_errors",
    "nvlink_replays",
    "nvlink_recoveries",
};

enum { TEXT = 96, MAX_UNITS = 64 * 8, MAX_PROCESSES = 32, MAX_FAILURES = 64, MAX_HANDLES = 65536, MIG_PER_GPU = 7 };
enum { MAX_GPM = 16, MAX_XIDS = 16 };

struct failure {
    char function[64];
    int code;
};

struct process {
    int graphics;
    unsigned pid;
    unsigned long long bytes;
};

/* A GPU, or a MIG instance of one. */
struct unit {
    char uuid[TEXT], name[TEXT], pci_bus_id[32];
    struct unit *parent; /* NULL for a GPU */
    unsigned mig_index;
    unsigned long long value[FIGURES];
    char present[FIGURES];
    struct process processes[MAX_PROCESSES];
    int process_count;
    struct failure failures[MAX_FAILURES];
    int failure_count;
    unsigned gpm_ids[MAX_GPM];
    double gpm_values[MAX_GPM];
    int gpm_count;
    int xid_serials[MAX_XIDS];
    unsigned xid_codes[MAX_XIDS];
    int xid_count;
};

/* What an nvmlDevice_t points to. Handles are by UUID, so they outlive a change of the file. */
struct handle {
    char uuid[TEXT];
    int dead;
};

/* nvmlProcessInfo_v2_t, which is also nvmlProcessInfo_t of the _v3 functions */
struct process_info {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
};

struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

struct pci_info {
    char bus_id_legacy[16];
    unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
};

struct utilization {
    unsigned gpu, memory;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stat seen;
static struct unit units[MAX_UNITS];
static int unit_count;
static struct failure failures[MAX_FAILURES];
static int failure_count;
static struct handle handles[MAX_HANDLES];
static int handle_count;
static int error, delay_ms, hangs, epoch, init_epoch, init_count, cuda_version;
static char driver[80], log_path[1024];

/* ---- the file ---- */

static void copy(char *to, const char *from, size_t size)
{
    snprintf(to, size, "%s", from);
}

static void add_failure(struct failure *list, int *count, const char *value)
{
    struct failure *failure = &list[*count];
    if (*count < MAX_FAILURES && sscanf(value, "%63s %d", failure->function, &failure->code) == 2)
        ++*count;
}

static void add_process(struct unit *unit, const char *value)
{
    struct process *process = &unit->processes[unit->process_count];
    char kind[16];
    long long bytes;
    if (unit->process_count < MAX_PROCESSES && sscanf(value, "%15s %u %lld", kind, &process->pid, &bytes) == 3) {
        process->graphics = strcmp(kind, "graphics") == 0;
        process->bytes = (unsigned long long)bytes;
        ++unit->process_count;
    }
}

static void add_gpm(struct unit *unit, const char *value)
{
    int at = unit->gpm_count;
    if (at < MAX_GPM && sscanf(value, "%u %lf", &unit->gpm_ids[at], &unit->gpm_values[at]) == 2)
        ++unit->gpm_count;
}

static void add_xid(struct unit *unit, const char *value)
{
    int at = unit->xid_count;
    if (at < MAX_XIDS && sscanf(value, "%d %u", &unit->xid_serials[at], &unit->xid_codes[at]) == 2)
        ++unit->xid_count;
}

static void read_unit_line(struct unit *unit, const char *key, const char *value)
{
    if (strcmp(key, "uuid") == 0)
        copy(unit->uuid, value, sizeof unit->uuid);
    else if (strcmp(key, "name") == 0)
        copy(unit->name, value, sizeof unit->name);
    else if (strcmp(key, "pci_bus_id") == 0)
        copy(unit->pci_bus_id, value, sizeof unit->pci_bus_id);
    else if (strcmp(key, "process") == 0)
        add_process(unit, value);
    else if (strcmp(key, "gpm") == 0)
        add_gpm(unit, value);
    else if (strcmp(key, "xid") == 0)
        add_xid(unit, value);
    else if (strcmp(key, "fail") == 0)
        add_failure(unit->failures, &unit->failure_count, value);
    for (int i = 0; i < FIGURES; ++i)
        if (strcmp(key, figure_keys[i]) == 0) {
            unit->value[i] = strtoull(value, NULL, 10);
            unit->present[i] = 1;
        }
}

static void read_global_line(const char *key, const char *value)
{
    if (strcmp(key, "driver") == 0)
        copy(driver, value, sizeof driver);
    else if (strcmp(key, "cuda_version") == 0)
        cuda_version = atoi(value);
    else if (strcmp(key, "error") == 0)
        error = atoi(value);
    else if (strcmp(key, "epoch") == 0)
        epoch = atoi(value);
    else if (strcmp(key, "delay_ms") == 0)
        delay_ms = atoi(value);
    else if (strcmp(key, "hangs") == 0)
        hangs = atoi(value);
    else if (strcmp(key, "log") == 0)
        copy(log_path, value, sizeof log_path);
    else if (strcmp(key, "fail") == 0)
        add_failure(failures, &failure_count, value);
}

static void read_lines(FILE *file)
{
    char line[2048], key[64];
    struct unit *unit = NULL, *gpu = NULL;
    while (fgets(line, sizeof line, file)) {
        int used = 0;
        line[strcspn(line, "\n")] = '\0';
        if (sscanf(line, "%63s %n", key, &used) != 1 || key[0] == '#')
            continue;
        int begins_gpu = strcmp(key, "gpu") == 0, begins_mig = strcmp(key, "mig") == 0;
        if (begins_gpu || begins_mig) {
            if (unit_count == MAX_UNITS || (begins_mig && !gpu))
                return;
            unit = &units[unit_count++];
            memset(unit, 0, sizeof *unit);
            unit->parent = begins_mig ? gpu : NULL;
            unit->mig_index = begins_mig ? (unsigned)atoi(line + used) : 0;
            gpu = begins_gpu ? unit : gpu;
        } else if (unit) {
            read_unit_line(unit, key, line + used);
        } else {
            read_global_line(key, line + used);
        }
    }
}

static void reload(void)
{
    const char *path = getenv("GMG_NVML_SIM");
    struct stat now;
    if (!path || stat(path, &now) != 0) {
        memset(&seen, 0, sizeof seen);
        unit_count = 0;
        error = DRIVER_NOT_LOADED;
        return;
    }
    if (now.st_ino == seen.st_ino && now.st_size == seen.st_size && now.st_mtim.tv_sec == seen.st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == seen.st_mtim.tv_nsec)
        return;
    FILE *file = fopen(path, "r");
    if (!file)
        return;
    seen = now;
    unit_count = failure_count = error = delay_ms = hangs = epoch = cuda_version = 0;
    driver[0] = log_path[0] = '\0';
    read_lines(file);
    fclose(file);
}

/* ---- what every call does ---- */

static void write_log(const char *function)
{
    char line[128];
    int file = log_path[0] ? open(log_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (file < 0)
        return;
    int length = snprintf(line, sizeof line, "%s\n", function);
    if (write(file, line, (size_t)length) != length)
        abort();
    close(file);
}

static int failure_of(const struct failure *list, int count, const char *function)
{
    for (int i = 0; i < count; ++i)
        if (strcmp(list[i].function, function) == 0)
            return list[i].code;
    return SUCCESS;
}

/* Lets other calls go on while this one hangs. */
static void hang(void)
{
    pthread_mutex_unlock(&lock);
    usleep(10000);
    pthread_mutex_lock(&lock);
    reload();
}

/* Takes the lock, whatever it returns; each function ends with `leave`. */
static int enter(const char *function)
{
    pthread_mutex_lock(&lock);
    reload();
    write_log(function);
    while (hangs)
        hang();
    if (delay_ms)
        usleep((useconds_t)delay_ms * 1000);
    int code;
    while ((code = failure_of(failures, failure_count, function)) == HANGS)
        hang();
    return error ? error : code;
}

static int leave(int code)
{
    pthread_mutex_unlock(&lock);
    return code;
}

static int enter_initialised(const char *function)
{
    int code = enter(function);
    if (code == SUCCESS && (init_count == 0 || init_epoch != epoch))
        return UNINITIALIZED;
    return code;
}

static int is_gpu(const struct unit *unit)
{
    return !unit->parent;
}

static struct unit *find(const char *uuid)
{
    for (int i = 0; i < unit_count; ++i)
        if (strcmp(units[i].uuid, uuid) == 0)
            return &units[i];
    return NULL;
}

static int is_lost(const struct unit *unit)
{
    const struct unit *gpu = unit->parent ? unit->parent : unit;
    return unit->value[LOST] != 0 || gpu->value[LOST] != 0;
}

static int enter_unit(const char *function, struct handle *handle, struct unit **unit)
{
    int code = enter_initialised(function);
    if (code != SUCCESS)
        return code;
    if (handle < handles || handle >= handles + handle_count)
        return INVALID_ARGUMENT;
    do {
        if (code == HANGS)
            hang();
        *unit = find(handle->uuid);
        if (handle->dead || !*unit || is_lost(*unit)) {
            handle->dead = 1;
            return GPU_IS_LOST;
        }
        code = failure_of((*unit)->failures, (*unit)->failure_count, function);
    } while (code == HANGS);
    return code;
}

static int give_handle(const struct unit *unit, struct handle **out)
{
    if (is_lost(unit))
        return GPU_IS_LOST;
    for (int i = 0; i < handle_count; ++i)
        if (!handles[i].dead && strcmp(handles[i].uuid, unit->uuid) == 0) {
            *out = &handles[i];
            return SUCCESS;
        }
    if (handle_count == MAX_HANDLES)
        abort();
    *out = &handles[handle_count++];
    copy((*out)->uuid, unit->uuid, TEXT);
    return SUCCESS;
}

static int give_text(const char *text, char *out, unsigned size)
{
    if (strlen(text) >= size)
        return INSUFFICIENT_SIZE;
    copy(out, text, size);
    return SUCCESS;
}

static int give_long(const char *function, struct handle *handle, enum figure figure, unsigned long long *out)
{
    struct unit *unit = NULL;
    int code = enter_unit(function, handle, &unit);
    if (code == SUCCESS && !unit->present[figure])
        code = NOT_SUPPORTED;
    if (code == SUCCESS)
        *out = unit->value[figure];
    return leave(code);
}

static int give(const char *function, struct handle *handle, enum figure figure, unsigned *out)
{
    unsigned long long value = 0;
    int code = give_long(function, handle, figure, &value);
    if (code == SUCCESS)
        *out = (unsigned)value;
    return code;
}

/* ---- the library ---- */

int nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    int code = enter("nvmlInitWithFlags");
    if (code == SUCCESS) {
        if (init_epoch != epoch)
            for (int i = 0; i < handle_count; ++i)
                handles[i].dead = 1;
        init_count = init_epoch == epoch ? init_count + 1 : 1;
        init_epoch = epoch;
    }
    return leave(code);
}

int nvmlInit_v2(void)
{
    return nvmlInitWithFlags(0);
}

int nvmlShutdown(void)
{
    int code = enter_initialised("nvmlShutdown");
    if (code == SUCCESS)
        --init_count;
    return leave(code);
}

const char *nvmlErrorString(int code)
{
    switch (code) {
    case SUCCESS:
        return "Success";
    case UNINITIALIZED:
        return "Uninitialized";
    case NOT_SUPPORTED:
        return "Not Supported";
    case GPU_IS_LOST:
        return "GPU is lost";
    default:
        return "Unknown Error";
    }
}

int nvmlSystemGetDriverVersion(char *out, unsigned size)
{
    int code = enter_initialised(__func__);
    return leave(code == SUCCESS ? give_text(driver, out, size) : code);
}

int nvmlDeviceGetCount_v2(unsigned *out)
{
    int code = enter_initialised(__func__);
    if (code == SUCCESS) {
        *out = 0;
        for (int i = 0; i < unit_count; ++i)
            *out += is_gpu(&units[i]);
    }
    return leave(code);
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct handle **out)
{
    int code = enter_initialised(__func__);
    if (code != SUCCESS)
        return leave(code);
    for (int i = 0; i < unit_count; ++i)
        if (is_gpu(&units[i]) && index-- == 0)
            return leave(give_handle(&units[i], out));
    return leave(INVALID_ARGUMENT);
}

int nvmlDeviceGetHandleByUUID(const char *uuid, struct handle **out)
{
    int code = enter_initialised(__func__);
    if (code != SUCCESS)
        return leave(code);
    const struct unit *unit = find(uuid);
    return leave(unit ? give_handle(unit, out) : NOT_FOUND);
}

int nvmlDeviceGetIndex(struct handle *handle, unsigned *out)
{
    struct unit *unit = NULL;
    int code = enter_unit(__func__, handle, &unit);
    if (code == SUCCESS) {
        *out = 0;
        for (const struct unit *other = units; other < unit; ++other)
            *out += is_gpu(other);
        if (unit->parent)
            *out = unit->mig_index;
    }
    return leave(code);
}

int nvmlDeviceGetUUID(struct handle *handle, char *out, unsigned size)
{
    struct unit *unit = NULL;
    int code = enter_unit(__func__, handle, &unit);
    return leave(code == SUCCESS ? give_text(unit->uuid, out, size) : code);
}

int nvmlDeviceGetName(struct handle *handle, char *out, unsigned size)
{
    struct unit *unit = NULL;
    int code = enter_unit(__func__, handle, &unit);
    return leave(code == SUCCESS ? give_text(unit->name, out, size) : code);
}

int nvmlDeviceGetPciInfo_v3(struct handle *handle, struct pci_info *out)
{
    struct unit *unit = NULL;
    int code = enter_unit(__func__, handle, &unit);
    if (code == SUCCESS && !unit->pci_bus_id[0])
        code = NOT_SUPPORTED;
    if (code == SUCCESS) {
        memset(out, 0, sizeof *out);
        copy(out->bus_id, unit->pci_bus_id, sizeof out->bus_id);
        sscanf(unit->pci_bus_id, "%x:%x:%x", &out->domain, &out->bus, &out->device);
    }
    return leave(code);
}

static int enter_memory(const char *function, struct handle *handle, struct unit **unit)
{
    int code = enter_unit(function, handle, unit);
    if (code == SUCCESS && (!(*unit)->present[MEMORY_TOTAL] || !(*unit)->present[MEMORY_USED]))
        return NOT_SUPPORTED;
    return code;
}

int nvmlDeviceGetMemoryInfo_v2(struct handle *handle, struct memory_v2 *out)
{
    struct unit *unit = NULL;
    int code = enter_memory(__func__, handle, &unit);
    if (code == SUCCESS && out->version != (sizeof *out | 2u << 24))
        code = ARGUMENT_VERSION_MISMATCH;
    if (code == SUCCESS) {
        out->total = unit->value[MEMORY_TOTAL];
        out->reserved = unit->value[MEMORY_RESERVED];
        out->used = unit->value[MEMORY_USED];
        out->free = out->total - out->used - out->reserved;
    }
    return leave(code);
}

int nvmlDeviceGetUtilizationRates(struct handle *handle, struct utilization *out)
{
    struct unit *unit = NULL;
    int code = enter_unit(__func__, handle, &unit);
    if (code == SUCCESS && !unit->present[GPU_UTIL])
        code = NOT_SUPPORTED;
    if (code == SUCCESS) {
        out->gpu = (unsigned)unit->value[GPU_UTIL];
        out->memory = (unsigned)unit->value[MEMORY_UTIL];
    }
    return leave(code);
}

int nvmlDeviceGetTemperature(struct handle *handle, unsigned sensor, unsigned *out)
{
    (void)sensor;
    return give(__func__, handle, TEMPERATURE, out);
}

int nvmlDeviceGetPowerUsage(struct handle *handle, unsigned *out)
{
    return give(__func__, handle, POWER, out);
}

int nvmlDeviceGetEnforcedPowerLimit(struct handle *handle, unsigned *out)
{
    return give(__func__, handle, POWER_LIMIT, out);
}

int nvmlDeviceGetGpuInstanceId(struct handle *handle, unsigned *out)
{
    return give(__func__, handle, GPU_INSTANCE, out);
}

int nvmlDeviceGetClockInfo(struct handle *handle, unsigned clock, unsigned *out)
{
    (void)clock;
    return give(__func__, handle, SM_CLOCK, out);
}

int nvmlDeviceGetMaxClockInfo(struct handle *handle, unsigned clock, unsigned *out)
{
    (void)clock;
    return give(__func__, handle, SM_CLOCK_MAX, out);
}

int nvmlDeviceGetCurrentClocksEventReasons(struct handle *handle, unsigned long long *out)
{
    return give_long(__func__, handle, THROTTLE, out);
}

int nvmlDeviceGetFanSpeed(struct handle *handle, unsigned *out)
{
    return give(__func__, handle, FAN, out);
}

int nvmlDeviceGetPcieThroughput(struct handle *handle, unsigned counter, unsigned *out)
{
    return give(__func__, handle, counter == 0 ? PCIE_TX : PCIE_RX, out);
}

int nvmlDeviceGetTotalEnergyConsumption(struct handle *handle, unsigned long long *out)
{
    return give_long(__func__, handle, ENERGY, out);
}

int nvmlDeviceGetPersistenceMode(struct handle *handle, unsigned *out)
{
    return give(__func__, handle, PERSISTENCE, out);
}

static void add_processes(const struct unit *unit, int graphics, struct process_info *out, unsigned room, unsigned *count)
{
    for (int i = 0; i < unit->process_count; ++i) {
        if (unit->processes[i].graphics != graphics)
            continue;
        if (out && *count < room) {
            struct process_info *info = &out[*count];
            info->pid = unit->processes[i].pid;
            info->bytes = unit->processes[i].bytes;
            info->gpu_instance = unit->parent ? (unsigned)unit->value[GPU_INSTANCE] : ~0u;
            info->compute_instance = 0;
        }
        ++*count;
    }
}

static int give_processes(const char *function, struct handle *handle, int graphics, unsigned *count,
                          struct process_info *out)
{
    struct unit *unit = NULL;
    int code = enter_unit(function, handle, &unit);
    if (code != SUCCESS)
        return leave(code);
    unsigned room = out ? *count : 0;
    *count = 0;
    for (int i = 0; i < unit_count; ++i)
        if (&units[i] == unit || units[i].parent == unit)
            add_processes(&units[i], graphics, out, room, count);
    return leave(*count > room ? INSUFFICIENT_SIZE : SUCCESS);
}

int nvmlDeviceGetComputeRunningProcesses_v2(struct handle *handle, unsigned *count, struct process_info *out)
{
    return give_processes(__func__, handle, 0, count, out);
}

int nvmlDeviceGetComputeRunningProcesses_v3(struct handle *handle, unsigned *count, struct process_info *out)
{
    return give_processes(__func__, handle, 0, count, out);
}

int nvmlDeviceGetGraphicsRunningProcesses_v2(struct handle *handle, unsigned *count, struct process_info *out)
{
    return give_processes(__func__, handle, 1, count, out);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(struct handle *handle, unsigned *count, struct process_info *out)
{
    return give_processes(__func__, handle, 1, count, out);
}

/* ---- MIG ---- */

int nvmlDeviceGetMigMode(struct handle *handle, unsigned *current, unsigned *pending)
{
    int code = give(__func__, handle, MIG_MODE, current);
    if (code == SUCCESS)
        *pending = *current;
    return code;
}

int nvmlDeviceGetMaxMigDeviceCount(struct handle *handle, unsigned *out)
{
    struct unit *unit = NULL;
    int code = enter_unit(__func__, handle, &unit);
    if (code == SUCCESS)
        *out = unit->present[MIG_MODE] ? MIG_PER_GPU : 0;
    return leave(code);
}

int nvmlDeviceGetMigDeviceHandleByIndex(struct handle *handle, unsigned index, struct handle **out)
{
    struct unit *unit = NULL;
    int code = enter_unit(__func__, handle, &unit);
    if (code != SUCCESS)
        return leave(code);
    for (int i = 0; i < unit_count; ++i)
        if (units[i].parent == unit && units[i].mig_index == index)
            return leave(give_handle(&units[i], out));
    return leave(NOT_FOUND);
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(struct handle *handle, struct handle **out)
{
    struct unit *unit = NULL;
    int code = enter_unit(__func__, handle, &unit);
    if (code == SUCCESS && !unit->parent)
        code = INVALID_ARGUMENT;
    return leave(code == SUCCESS ? give_handle(unit->parent, out) : code);
}

#include "activity_and_health.c"
