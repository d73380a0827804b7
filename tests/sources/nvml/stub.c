/* A stand-in for libnvidia-ml.so.1 that a test scripts while the real bindings call it.
 *
 * Enters: stub_set / stub_text / stub_event from the test. Leaves: what NVML would answer, with its
 * error codes; stub_calls, stub_live_samples and stub_misuse for the test to look at.
 *
 * Keys of stub_set, the most specific first: `gpu0.gi1.KEY`, `gpu0.KEY`, `KEY`.
 *   gpus, gpu0.mig, gpu0.instances, gpu0.mig2.hole, gpu0.mig0.gi, gpu0.mig0.ci, gpu0.lost
 *   architecture (9 = Hopper; below it there is no GPM), sm_clock, power, ... (units of NVML)
 *   gpm.5, gpm.5.return            value and nvmlReturn of one GPM metric
 *   gpm.5.skipped                  1: the driver does not fill this metric in at all
 *   gpm_max_id, gpm_strict         newest id that the driver knows; 1: a newer one fails the call
 *   time_ms, refresh_ms            the stub's time; pairs closer than refresh_ms give NaN
 *   clock_samples_ms               the driver keeps samples of the clock, so far apart (0: none)
 *   epoch_ms                       Unix time of time_ms = 0
 *   cycle_scale                    cycles that the driver counts in one SM clock, with a trace
 *   no_idle_reason                 1: the clock event reasons never say that the GPU is idle
 *   nvmlDeviceGetPowerUsage        error code of that function
 *   hang.nvmlDeviceGetPowerUsage   1: the call does not return until this is set to 0
 *   gpu0.hang.nvmlDeviceGetPowerUsage, gpu0.hang   1: the same for one GPU; for any call of it
 *   absent.nvmlDeviceGetPowerUsage 1: as in a driver that has no such function (code 13)
 */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define API __attribute__((visibility("default")))

enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7, TIMEOUT = 10, FUNCTION_NOT_FOUND = 13, GPU_IS_LOST = 15,
    VERSION_MISMATCH = 25
};
enum { MAX_GPUS = 16, MAX_MIG = 8, MAX_SAMPLES = 256, TABLE = 8192, MAX_EVENTS = 64, HOPPER = 9 };

typedef unsigned int u32;
typedef unsigned long long u64;

/* ---- the script ---- */

typedef struct { char key[80]; double value; char text[96]; int used; } Entry;
static Entry table[TABLE];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static Entry *find(const char *key, int create) {
    u32 hash = 2166136261u;
    for (const char *c = key; *c; c++) hash = (hash ^ (unsigned char)*c) * 16777619u;
    for (u32 i = hash % TABLE;; i = (i + 1) % TABLE) {
        if (table[i].used && strcmp(table[i].key, key) == 0) return &table[i];
        if (table[i].used) continue;
        if (!create) return NULL;
        snprintf(table[i].key, sizeof table[i].key, "%s", key);
        table[i].used = 1;
        return &table[i];
    }
}

static Entry *found(const char *format, ...) {
    char key[80];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(key, sizeof key, format, arguments);
    va_end(arguments);
    pthread_mutex_lock(&lock);
    Entry *entry = find(key, 0);
    pthread_mutex_unlock(&lock);
    return entry;
}

API void stub_set(const char *key, double value) {
    pthread_mutex_lock(&lock);
    find(key, 1)->value = value;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

API void stub_text(const char *key, const char *text) {
    pthread_mutex_lock(&lock);
    Entry *entry = find(key, 1);
    snprintf(entry->text, sizeof entry->text, "%s", text);
    pthread_mutex_unlock(&lock);
}

/* A process of its own is scripted by its environment: NVML_STUB="gpus=8 gpm.5=43.75". */
__attribute__((constructor)) static void from_environment(void) {
    const char *script = getenv("NVML_STUB");
    char key[80];
    double value;
    for (int read = 0; script && sscanf(script, " %79[^= ]=%lf%n", key, &value, &read) == 2;)
        stub_set(key, value), script += read;
}

static double global(const char *key, double otherwise) {
    Entry *entry = found("%s", key);
    return entry ? entry->value : otherwise;
}

/* ---- devices ---- */

typedef struct { int gpu, mig; } Node; /* mig = -1: the GPU itself */
static Node gpus[MAX_GPUS], migs[MAX_GPUS][MAX_MIG];
static int references;
static u32 calls_total, misuse;

static double of_gpu(int gpu, const char *key, double otherwise) {
    Entry *entry = found("gpu%d.%s", gpu, key);
    return entry ? entry->value : global(key, otherwise);
}

static u32 instance(int gpu, int slot, const char *what) {
    Entry *entry = found("gpu%d.mig%d.%s", gpu, slot, what);
    return entry ? (u32)entry->value : (strcmp(what, "gi") == 0 ? (u32)slot + 1 : 0);
}

static double of(const Node *node, const char *key, double otherwise) {
    if (node->mig >= 0) {
        Entry *entry = found("gpu%d.gi%u.%s", node->gpu, instance(node->gpu, node->mig, "gi"), key);
        if (entry) return entry->value;
    }
    return of_gpu(node->gpu, key, otherwise);
}

static int live_mig(int gpu, int slot) {
    return of_gpu(gpu, "mig", 0) != 0 && slot < (int)of_gpu(gpu, "instances", 0) &&
           !found("gpu%d.mig%d.hole", gpu, slot);
}

static int known(const Node *node) {
    int count = (int)global("gpus", 1);
    if (node >= gpus && node < gpus + MAX_GPUS) return node - gpus < count;
    if (node < &migs[0][0] || node >= &migs[0][0] + MAX_GPUS * MAX_MIG) return 0;
    return node->gpu < count && live_mig(node->gpu, node->mig);
}

static u32 hanging;

/* Waits while a GPU is told to hang, in this call or in any. */
static void hang_in(int gpu, const char *name) {
    char one[96], any[32];
    snprintf(one, sizeof one, "gpu%d.hang.%s", gpu, name);
    snprintf(any, sizeof any, "gpu%d.hang", gpu);
    pthread_mutex_lock(&lock);
    for (;;) {
        Entry *in_call = find(one, 0), *in_any = find(any, 0);
        if (!(in_call && in_call->value != 0) && !(in_any && in_any->value != 0)) break;
        hanging++;
        pthread_cond_wait(&changed, &lock);
        hanging--;
    }
    pthread_mutex_unlock(&lock);
}

/* Counts the call, waits while it is told to hang, and gives the scripted error. */
static int gate(const char *name) {
    char key[96];
    snprintf(key, sizeof key, "calls.%s", name);
    pthread_mutex_lock(&lock);
    find(key, 1)->value++;
    calls_total++;
    snprintf(key, sizeof key, "hang.%s", name);
    for (Entry *hang; (hang = find(key, 0)) && hang->value != 0;) pthread_cond_wait(&changed, &lock);
    int ready = references;
    pthread_mutex_unlock(&lock);
    if (!ready) return UNINITIALIZED;
    Entry *absent = found("absent.%s", name);
    if (absent && absent->value != 0) return FUNCTION_NOT_FOUND;
    return (int)global(name, 0);
}

static int enter(const Node *node, const char *name, int mig_too) {
    int code = gate(name);
    if (code == UNINITIALIZED || code == FUNCTION_NOT_FOUND) return code;
    if (!node || !known(node)) return INVALID_ARGUMENT;
    hang_in(node->gpu, name);
    if (of_gpu(node->gpu, "lost", 0) != 0) return GPU_IS_LOST;
    Entry *entry = found("gpu%d.%s", node->gpu, name);
    if (entry) code = (int)entry->value;
    if (code) return code;
    return node->mig >= 0 && !mig_too ? NOT_SUPPORTED : SUCCESS;
}

#define ENTER(node, mig_too)                              \
    do {                                                  \
        int code_ = enter((node), __func__, (mig_too));   \
        if (code_) return code_;                          \
    } while (0)
#define GATE()                                            \
    do {                                                  \
        int code_ = gate(__func__);                       \
        if (code_) return code_;                          \
    } while (0)

/* ---- traces: what a GPU does in each step, in place of scripted clocks and activities ---- */

enum { CLOCK, TENSOR, SM, ENGINE, ROWS };
typedef struct { int steps; double step_ms; double *at[ROWS], *until[ROWS]; } Trace;
static Trace traces[MAX_GPUS];

/* `rows`: steps of MHz, then of tensor, SM and engine activity (0..1); the last step stays. */
API void stub_trace(int gpu, int steps, double step_ms, const double *rows) {
    Trace *trace = &traces[gpu];
    for (int row = 0; row < ROWS; row++) {
        free(trace->at[row]), free(trace->until[row]);
        trace->at[row] = trace->until[row] = NULL;
        if (!steps) continue;
        double *at = trace->at[row] = malloc(sizeof(double) * (size_t)steps), sum = 0;
        double *until = trace->until[row] = malloc(sizeof(double) * ((size_t)steps + 1));
        for (int i = 0; i < steps; i++) {
            at[i] = rows[row * steps + i];
            until[i] = sum;
            /* shares of elapsed cycles, but for the clock itself and the engine, which has time */
            sum += at[i] * step_ms * (row == TENSOR || row == SM ? trace->at[CLOCK][i] : 1);
        }
        until[steps] = sum;
    }
    trace->steps = steps, trace->step_ms = step_ms;
}
static double now_in(const Trace *trace, int row) {
    int step = (int)(global("time_ms", 0) / trace->step_ms);
    return trace->at[row][step < trace->steps ? step : trace->steps - 1];
}
/* The integral from the beginning: MHz x ms, that is thousands of cycles; ms for the engine. */
static double integral(const Trace *trace, int row, double ms) {
    double position = ms / trace->step_ms;
    int step = (int)position < trace->steps ? (int)position : trace->steps - 1;
    double per_ms = trace->at[row][step] * (row == TENSOR || row == SM ? trace->at[CLOCK][step] : 1);
    return trace->until[row][step] + per_ms * (ms - step * trace->step_ms);
}
static const Trace *trace_of(const Node *node) {
    return node->mig < 0 && traces[node->gpu].steps ? &traces[node->gpu] : NULL;
}
static u64 reasons_of(const Node *node) {
    const Trace *trace = trace_of(node);
    if (!trace) return (u64)of(node, "clock_reasons", 0);
    if (now_in(trace, ENGINE) <= 0) return global("no_idle_reason", 0) != 0 ? 0 : 1;
    return now_in(trace, CLOCK) < 1500 ? 4 : 0;
}

/* ---- library ---- */

API int nvmlInitWithFlags(u32 flags) {
    (void)flags;
    int code = (int)global("nvmlInitWithFlags", 0);
    if (code) return code;
    for (int i = 0; i < MAX_GPUS; i++) {
        gpus[i] = (Node){i, -1};
        for (int j = 0; j < MAX_MIG; j++) migs[i][j] = (Node){i, j};
    }
    pthread_mutex_lock(&lock);
    references++;
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}
API int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
API int nvmlShutdown(void) {
    GATE();
    pthread_mutex_lock(&lock);
    references--;
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}
API const char *nvmlErrorString(int code) {
    switch (code) {
    case SUCCESS: return "Success";
    case VERSION_MISMATCH: return "Argument version mismatch";
    default: return "Error of the stub";
    }
}
static int put(const char *text, char *buffer, u32 size) {
    if (!buffer) return INVALID_ARGUMENT;
    if (strlen(text) + 1 > size) return INSUFFICIENT_SIZE;
    strcpy(buffer, text);
    return SUCCESS;
}
API int nvmlSystemGetDriverVersion(char *buffer, u32 size) {
    GATE();
    Entry *entry = found("driver");
    return put(entry ? entry->text : "595.45.04", buffer, size);
}
API int nvmlSystemGetNVMLVersion(char *buffer, u32 size) { GATE(); return put("13.595.45", buffer, size); }
API int nvmlSystemGetCudaDriverVersion_v2(int *version) { GATE(); *version = 13000; return SUCCESS; }

/* ---- identity ---- */

API int nvmlDeviceGetCount_v2(u32 *count) { GATE(); *count = (u32)global("gpus", 1); return SUCCESS; }
API int nvmlDeviceGetHandleByIndex_v2(u32 index, Node **device) {
    GATE();
    if (index >= (u32)global("gpus", 1)) return INVALID_ARGUMENT;
    hang_in((int)index, __func__);
    Entry *entry = found("gpu%u.%s", index, __func__);
    if (entry && entry->value != 0) return (int)entry->value;
    *device = &gpus[index];
    return SUCCESS;
}
static void uuid_of(const Node *node, char *text, size_t size) {
    Entry *entry = found("gpu%d.uuid", node->gpu);
    if (node->mig >= 0)
        snprintf(text, size, "MIG-00000000-0000-0000-%04d-%04u%04u0000", node->gpu,
                 instance(node->gpu, node->mig, "gi"), instance(node->gpu, node->mig, "ci"));
    else if (entry)
        snprintf(text, size, "%s", entry->text);
    else
        snprintf(text, size, "GPU-00000000-0000-0000-0000-%012d", node->gpu);
}
API int nvmlDeviceGetHandleByUUID(const char *uuid, Node **device) {
    GATE();
    char text[96];
    for (int i = 0; i < (int)global("gpus", 1); i++) {
        uuid_of(&gpus[i], text, sizeof text);
        if (strcmp(text, uuid) == 0) { *device = &gpus[i]; return SUCCESS; }
    }
    return NOT_FOUND;
}
API int nvmlDeviceGetName(Node *device, char *buffer, u32 size) {
    ENTER(device, 1);
    char text[200];
    Entry *entry = found("gpu%d.name", device->gpu);
    if (!entry) entry = found("name");
    const char *name = entry ? entry->text : "NVIDIA H100 80GB HBM3";
    if (device->mig < 0) return put(name, buffer, size);
    snprintf(text, sizeof text, "%s MIG 1g.10gb", name);
    return put(text, buffer, size);
}
API int nvmlDeviceGetUUID(Node *device, char *buffer, u32 size) {
    ENTER(device, 1);
    char text[96];
    uuid_of(device, text, sizeof text);
    return put(text, buffer, size);
}
API int nvmlDeviceGetSerial(Node *device, char *buffer, u32 size) {
    ENTER(device, 0);
    char text[32];
    snprintf(text, sizeof text, "16525230%04d", device->gpu);
    return put(text, buffer, size);
}
typedef struct { char legacy[16]; u32 domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
API int nvmlDeviceGetPciInfo_v3(Node *device, Pci *pci) {
    ENTER(device, 0);
    memset(pci, 0, sizeof *pci);
    pci->bus = 0x1b + (u32)device->gpu;
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus);
    return SUCCESS;
}

/* ---- numbers that are one call each ---- */

#define NUMBER(function, type, key, otherwise)            \
    API int function(Node *device, type *value) {         \
        ENTER(device, 0);                                 \
        if (!value) return INVALID_ARGUMENT;              \
        *value = (type)of(device, key, otherwise);        \
        return SUCCESS;                                   \
    }
#define PAIR(function, key)                               \
    API int function(Node *device, u32 *value, u32 *us) { \
        ENTER(device, 0);                                 \
        *value = (u32)of(device, key, 0);                 \
        *us = 167000;                                     \
        return SUCCESS;                                   \
    }
NUMBER(nvmlDeviceGetMinorNumber, u32, "minor", 0)
NUMBER(nvmlDeviceGetArchitecture, u32, "architecture", HOPPER)
NUMBER(nvmlDeviceGetNumGpuCores, u32, "cores", 132 * 128)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, u32, "power_limit", 700000)
NUMBER(nvmlDeviceGetTotalEnergyConsumption, u64, "energy", 5123456789.0)
NUMBER(nvmlDeviceGetPcieReplayCounter, u32, "pcie_replays", 0)
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, u32, "pcie_gen", 5)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, u32, "pcie_width", 16)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, u32, "pcie_max_gen", 5)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, u32, "pcie_max_width", 16)
PAIR(nvmlDeviceGetEncoderUtilization, "encoder")
PAIR(nvmlDeviceGetDecoderUtilization, "decoder")

API int nvmlDeviceGetPowerUsage(Node *device, u32 *mw) {
    ENTER(device, 0);
    if (!mw) return INVALID_ARGUMENT;
    const Trace *trace = trace_of(device);
    *mw = trace && now_in(trace, ENGINE) <= 0 ? 120000 : (u32)of(device, "power", 652345);
    return SUCCESS;
}
API int nvmlDeviceGetCurrentClocksEventReasons(Node *device, u64 *reasons) {
    ENTER(device, 0);
    *reasons = reasons_of(device);
    return SUCCESS;
}
API int nvmlDeviceGetCurrentClocksThrottleReasons(Node *device, u64 *reasons) {
    ENTER(device, 0);
    *reasons = reasons_of(device);
    return SUCCESS;
}
API int nvmlDeviceGetClockInfo(Node *device, u32 type, u32 *mhz) {
    ENTER(device, 0);
    if (type > 3) return INVALID_ARGUMENT;
    const Trace *trace = trace_of(device);
    if (type == 2) *mhz = (u32)of(device, "mem_clock", 2619);
    else *mhz = trace ? (u32)now_in(trace, CLOCK) : (u32)of(device, "sm_clock", 1755);
    return SUCCESS;
}
typedef struct { u64 at_us; union { double d; u32 ui; u64 u; } value; } Stamped;
API int nvmlDeviceGetSamples(Node *device, int kind, u64 since_us, int *type, u32 *count, Stamped *out) {
    ENTER(device, 0);
    double apart_ms = of(device, "clock_samples_ms", 0), now_ms = global("time_ms", 0);
    const Trace *trace = trace_of(device);
    if (kind != 5 || apart_ms <= 0) return NOT_SUPPORTED;
    u32 room = *count, found = 0;
    for (double ms = 0; ms <= now_ms; ms += apart_ms) {
        u64 at_us = (u64)((global("epoch_ms", 0) + ms) * 1000);
        if (at_us <= since_us) continue;
        if (out && found < room) {
            int step = trace ? (int)(ms / trace->step_ms) : 0;
            if (trace && step >= trace->steps) step = trace->steps - 1;
            out[found].at_us = at_us;
            out[found].value.ui = trace ? (u32)trace->at[CLOCK][step] : (u32)of(device, "sm_clock", 1755);
        }
        found++;
    }
    *type = 1, *count = found;
    return found ? SUCCESS : NOT_FOUND;
}
API int nvmlDeviceGetMaxClockInfo(Node *device, u32 type, u32 *mhz) {
    ENTER(device, 0);
    if (type > 3) return INVALID_ARGUMENT;
    *mhz = type == 2 ? (u32)of(device, "max_mem_clock", 2619) : (u32)of(device, "max_sm_clock", 1980);
    return SUCCESS;
}
typedef struct { u64 reference_us, violation_ns; } Violation;
API int nvmlDeviceGetViolationStatus(Node *device, u32 policy, Violation *time) {
    ENTER(device, 0);
    if (policy > 1) return NOT_SUPPORTED;
    *time = (Violation){1, (u64)of(device, policy ? "thermal_ns" : "power_ns", 0)};
    return SUCCESS;
}
API int nvmlDeviceGetTemperature(Node *device, u32 sensor, u32 *celsius) {
    ENTER(device, 0);
    if (sensor != 0) return INVALID_ARGUMENT;
    *celsius = (u32)of(device, "temperature", 61);
    return SUCCESS;
}
typedef struct { u32 version; int sensor, celsius; } Temperature;
API int nvmlDeviceGetTemperatureV(Node *device, Temperature *temperature) {
    ENTER(device, 0);
    if (temperature->version != 0x0100000c) return VERSION_MISMATCH;
    if (temperature->sensor != 0) return INVALID_ARGUMENT;
    temperature->celsius = (int)of(device, "temperature", 61);
    return SUCCESS;
}
typedef struct { u32 gpu, memory; } Utilization;
API int nvmlDeviceGetUtilizationRates(Node *device, Utilization *rates) {
    ENTER(device, 0);
    if (of(device, "mig", 0) != 0) return NOT_SUPPORTED;
    const Trace *trace = trace_of(device);
    double busy = trace ? 100 * now_in(trace, ENGINE) : of(device, "gpu_util", 97);
    *rates = (Utilization){(u32)busy, (u32)of(device, "mem_util", 41)};
    return SUCCESS;
}
API int nvmlDeviceGetMemoryInfo(Node *device, u64 *memory) {
    ENTER(device, 1);
    memory[0] = (u64)of(device, "mem_total", 85520809984.0);
    memory[2] = (u64)of(device, "mem_used", 62000000000.0) + 500000000;
    memory[1] = memory[0] - memory[2];
    return SUCCESS;
}
typedef struct { u32 version; u64 total, reserved, free, used; } Memory;
API int nvmlDeviceGetMemoryInfo_v2(Node *device, Memory *memory) {
    ENTER(device, 1);
    if (memory->version != 0x02000028) return VERSION_MISMATCH;
    memory->total = (u64)of(device, "mem_total", 85520809984.0);
    memory->used = (u64)of(device, "mem_used", 62000000000.0);
    memory->reserved = 500000000;
    memory->free = memory->total - memory->used - memory->reserved;
    return SUCCESS;
}
API int nvmlDeviceGetTotalEccErrors(Node *device, u32 kind, u32 counter, u64 *count) {
    ENTER(device, 0);
    if (kind > 1 || counter > 1) return INVALID_ARGUMENT;
    *count = (u64)of(device, kind ? "ecc_uncorrected" : "ecc_corrected", 0) + (counter ? 1000 : 0);
    return SUCCESS;
}
API int nvmlDeviceGetRemappedRows(Node *device, u32 *corrected, u32 *uncorrected, u32 *pending,
                                  u32 *failure) {
    ENTER(device, 0);
    *corrected = (u32)of(device, "rows_corrected", 0);
    *uncorrected = (u32)of(device, "rows_uncorrected", 0);
    *pending = (u32)of(device, "rows_pending", 0);
    *failure = (u32)of(device, "rows_failure", 0);
    return SUCCESS;
}
typedef struct {
    u32 id, scope;
    int64_t at_us, latency_us;
    u32 type, code;
    union { double d; int64_t i; u64 u; u32 ui; } value;
} Field;
API int nvmlDeviceGetFieldValues(Node *device, int count, Field *fields) {
    ENTER(device, 0);
    for (int i = 0; i < count; i++) {
        fields[i].code = fields[i].id == 82 ? (u32)of(device, "mem_temperature_return", 0) : NOT_SUPPORTED;
        fields[i].type = 1; /* unsigned int */
        fields[i].value.u = 0xdeadbeef00000000ull; /* only the member of `type` holds the value */
        fields[i].value.ui = (u32)of(device, "mem_temperature", 74);
    }
    return SUCCESS;
}

typedef struct { u32 pid; u64 bytes; u32 gi, ci; } Process;
API int nvmlDeviceGetComputeRunningProcesses_v3(Node *device, u32 *count, Process *processes) {
    ENTER(device, 1);
    u32 running = (u32)of(device, "processes", 0), room = *count;
    int mig = device->mig >= 0;
    *count = running;
    if (running == 0) return SUCCESS;
    if (!processes || room < running) return INSUFFICIENT_SIZE;
    for (u32 i = 0; i < running; i++)
        processes[i] = (Process){4242 + i, i == 1 ? ~0ull : 1000000000ull * (i + 1),
                                 mig ? instance(device->gpu, device->mig, "gi") : ~0u,
                                 mig ? instance(device->gpu, device->mig, "ci") : ~0u};
    return SUCCESS;
}

/* ---- MIG ---- */

API int nvmlDeviceGetMigMode(Node *device, u32 *current, u32 *pending) {
    ENTER(device, 0);
    if (of(device, "architecture", HOPPER) < 7) return NOT_SUPPORTED;
    *current = *pending = (u32)of(device, "mig", 0);
    return SUCCESS;
}
API int nvmlDeviceGetMaxMigDeviceCount(Node *device, u32 *count) {
    ENTER(device, 0);
    *count = 7;
    return SUCCESS;
}
API int nvmlDeviceGetMigDeviceHandleByIndex(Node *device, u32 index, Node **mig) {
    ENTER(device, 0);
    if (index >= MAX_MIG) return INVALID_ARGUMENT;
    if (!live_mig(device->gpu, (int)index)) return NOT_FOUND;
    *mig = &migs[device->gpu][index];
    return SUCCESS;
}
#define OF_MIG(function, type, value)                     \
    API int function(Node *device, type *result) {        \
        ENTER(device, 1);                                 \
        if (device->mig < 0) return INVALID_ARGUMENT;     \
        *result = value;                                  \
        return SUCCESS;                                   \
    }
OF_MIG(nvmlDeviceGetGpuInstanceId, u32, instance(device->gpu, device->mig, "gi"))
OF_MIG(nvmlDeviceGetComputeInstanceId, u32, instance(device->gpu, device->mig, "ci"))
OF_MIG(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, Node *, &gpus[device->gpu])
typedef struct { u32 sms, copy, decoder, encoder, jpeg, ofa, gi_slices, ci_slices; u64 mb; } Attributes;
OF_MIG(nvmlDeviceGetAttributes_v2, Attributes, ((Attributes){16, 1, 1, 0, 1, 0, 1, 1, 9728}))

/* ---- events ---- */

typedef struct { Node *device; u64 type, data; u32 gi, ci; } Event;
typedef struct { u32 gpus; Event queue[MAX_EVENTS]; int head, count, freed; } EventSet;
static EventSet *event_set; /* one at a time is enough */

API void stub_event(int gpu, u64 type, u64 data) {
    pthread_mutex_lock(&lock);
    EventSet *set = event_set;
    if (set && !set->freed && (set->gpus >> gpu & 1) && set->count < MAX_EVENTS)
        set->queue[(set->head + set->count++) % MAX_EVENTS] =
            (Event){&gpus[gpu], type, data, ~0u, ~0u};
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}
API int nvmlEventSetCreate(EventSet **set) {
    GATE();
    event_set = *set = calloc(1, sizeof **set); /* kept after its end, to notice a late use */
    return SUCCESS;
}
API int nvmlDeviceRegisterEvents(Node *device, u64 types, EventSet *set) {
    ENTER(device, 0);
    if (!set || set->freed || types != 8) return INVALID_ARGUMENT;
    pthread_mutex_lock(&lock);
    set->gpus |= 1u << device->gpu;
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}
API int nvmlEventSetFree(EventSet *set) {
    GATE();
    if (!set || set->freed) { misuse++; return INVALID_ARGUMENT; }
    set->freed = 1;
    return SUCCESS;
}
API int nvmlEventSetWait_v2(EventSet *set, Event *event, u32 timeout_ms) {
    GATE();
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += (timeout_ms % 1000) * 1000000L;
    if (until.tv_nsec >= 1000000000L) { until.tv_sec++; until.tv_nsec -= 1000000000L; }
    pthread_mutex_lock(&lock);
    int late = 0;
    while (set && !set->freed && set->count == 0 && !late)
        late = pthread_cond_timedwait(&changed, &lock, &until) == ETIMEDOUT;
    int code = TIMEOUT;
    if (!set || set->freed) {
        misuse++;
        code = INVALID_ARGUMENT;
    } else if (set->count > 0) {
        *event = set->queue[set->head];
        set->head = (set->head + 1) % MAX_EVENTS;
        set->count--;
        code = SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

/* ---- GPM ---- */

typedef struct { Node *device; u32 gi; double at_ms; int live, filled; } Sample;
static Sample samples[MAX_SAMPLES]; /* a freed one is used again last, so that late uses show */
static int next_sample;
typedef struct { u32 id; int code; double value; const char *names[3]; } Metric;
typedef struct { u32 version, count; Sample *first, *second; Metric metrics[]; } Request;
typedef struct { u32 version, supported; } Support;

static int live(const Sample *sample) {
    int ok = sample >= samples && sample < samples + MAX_SAMPLES && sample->live;
    if (!ok) misuse++;
    return ok;
}
API int stub_live_samples(void) {
    int count = 0;
    for (int i = 0; i < MAX_SAMPLES; i++) count += samples[i].live;
    return count;
}
API int nvmlGpmQueryDeviceSupport(Node *device, Support *support) {
    ENTER(device, 1);
    if (support->version != 1) return VERSION_MISMATCH;
    support->supported = of(device, "architecture", HOPPER) >= HOPPER;
    return SUCCESS;
}
API int nvmlGpmSampleAlloc(Sample **sample) {
    GATE();
    for (int i = 0; i < MAX_SAMPLES; i++, next_sample = (next_sample + 1) % MAX_SAMPLES)
        if (!samples[next_sample].live) {
            samples[next_sample] = (Sample){.live = 1};
            *sample = &samples[next_sample];
            next_sample = (next_sample + 1) % MAX_SAMPLES;
            return SUCCESS;
        }
    return 20;
}
API int nvmlGpmSampleFree(Sample *sample) {
    GATE();
    if (!live(sample)) return INVALID_ARGUMENT;
    sample->live = 0;
    return SUCCESS;
}
static int fill(Node *device, u32 gi, Sample *sample) {
    if (!live(sample)) return INVALID_ARGUMENT;
    if (of(device, "architecture", HOPPER) < HOPPER) return NOT_SUPPORTED;
    *sample = (Sample){device, gi, global("time_ms", 0), 1, 1};
    return SUCCESS;
}
API int nvmlGpmSampleGet(Node *device, Sample *sample) {
    ENTER(device, 1);
    return fill(device, ~0u, sample);
}
API int nvmlGpmMigSampleGet(Node *device, u32 gi, Sample *sample) {
    ENTER(device, 0);
    for (int slot = 0; slot < MAX_MIG; slot++)
        if (live_mig(device->gpu, slot) && instance(device->gpu, slot, "gi") == gi)
            return fill(device, gi, sample);
    return NOT_FOUND;
}
static double scripted(const Sample *sample, const char *key, double otherwise) {
    Entry *entry = sample->gi == ~0u ? NULL : found("gpu%d.gi%u.%s", sample->device->gpu, sample->gi, key);
    return entry ? entry->value : of(sample->device, key, otherwise);
}
static int row_of(u32 id) {
    switch (id) {
    case 1: return ENGINE;
    case 2: case 249: return SM;
    case 5: case 7: case 250: case 252: return TENSOR;
    case 248: return CLOCK;
    default: return -1;
    }
}
static int traced(const Request *request, Metric *metric) {
    const Trace *trace = trace_of(request->second->device);
    int row = row_of(metric->id);
    if (!trace || row < 0) return 0;
    double from_ms = request->first->at_ms, to_ms = request->second->at_ms;
    double sum = integral(trace, row, to_ms), total = to_ms - from_ms;
    if (metric->id >= 248) {
        metric->value = floor(sum * 1000 * global("cycle_scale", 132));
        return 1;
    }
    if (row != ENGINE) total = integral(trace, CLOCK, to_ms) - integral(trace, CLOCK, from_ms);
    metric->value = total > 0 ? 100 * (sum - integral(trace, row, from_ms)) / total : 0;
    return 1;
}
static void measure(const Request *request, Metric *metric) {
    char key[40];
    double span_ms = request->second->at_ms - request->first->at_ms;
    int cumulative = metric->id >= 248 && metric->id <= 260;
    snprintf(key, sizeof key, "gpm.%u.skipped", metric->id);
    if (scripted(request->second, key, 0) != 0) return;
    snprintf(key, sizeof key, "gpm.%u.return", metric->id);
    metric->code = (int)scripted(request->second, key, 0);
    if (metric->code) return; /* the driver leaves the value as it was */
    if (traced(request, metric)) return;
    snprintf(key, sizeof key, "gpm.%u", metric->id);
    double value = scripted(request->second, key, cumulative ? 1e6 : 0);
    if (cumulative) value *= request->second->at_ms; /* per millisecond, since reboot */
    metric->value = span_ms < global("refresh_ms", 0) ? NAN : value;
}
API int nvmlGpmMetricsGet(Request *request) {
    GATE();
    u32 newest = (u32)global("gpm_max_id", 332);
    if (request->version != 1) return VERSION_MISMATCH;
    if (!request->count || request->count > 512) return INVALID_ARGUMENT;
    if (!live(request->first) || !live(request->second)) return INVALID_ARGUMENT;
    const Sample *first = request->first, *second = request->second;
    if (!first->filled || !second->filled || first->device != second->device || first->gi != second->gi ||
        first->at_ms > second->at_ms) {
        misuse++;
        return INVALID_ARGUMENT;
    }
    for (u32 i = 0; i < request->count; i++)
        if (request->metrics[i].id > newest && global("gpm_strict", 0) != 0) return INVALID_ARGUMENT;
    for (u32 i = 0; i < request->count; i++)
        if (request->metrics[i].id > newest) request->metrics[i].code = INVALID_ARGUMENT;
        else measure(request, &request->metrics[i]);
    return SUCCESS;
}

/* ---- for the test ---- */

API u32 stub_misuse(void) { return misuse; }
API u32 stub_hanging(void) { return hanging; }
API int stub_references(void) { return references; }
API u32 stub_calls(const char *function) {
    if (!*function) return calls_total;
    Entry *entry = found("calls.%s", function);
    return entry ? (u32)entry->value : 0;
}
API void stub_reset(void) { /* between tests, when nothing is open */
    pthread_mutex_lock(&lock);
    memset(table, 0, sizeof table);
    memset(samples, 0, sizeof samples);
    for (int gpu = 0; gpu < MAX_GPUS; gpu++) traces[gpu].steps = 0;
    event_set = NULL;
    misuse = calls_total = 0;
    references = next_sample = 0;
    pthread_mutex_unlock(&lock);
}
