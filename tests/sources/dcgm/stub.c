/* libdcgm.so.4 as a client sees it: two GPUs with constant values, and strict about what it is given.
 * Layouts are written here anew from dcgm_structs.h, so that a mistake in native.py shows. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define VERSION(type, n) ((unsigned)(sizeof(type) | ((unsigned long)(n) << 24)))
#define CHECK(condition, code) do { if (!(condition)) return (code); } while (0)
enum { OK = 0, BADPARAM = -1, NO_DATA = -14, VERSION_MISMATCH = -12, DUPLICATE = -26, GONE = -21 };
enum { GPUS = 2, GROUPS = 16, MEMBERS = 64, IDS = 128 };

typedef struct { unsigned version, persist, timeout_ms, is_unix; } Connect;
typedef struct { uint32_t version; char text[512]; } Version;
typedef struct { unsigned group, id; } Pair;
typedef struct { Pair entity, parent; char uuid[128]; unsigned index, gi, ci, profile, slices; } Mig;
typedef struct { unsigned version, count; Mig rows[448]; } Hierarchy;
typedef struct { unsigned short major, minor; unsigned count; unsigned short ids[64]; } Metrics;
typedef struct { unsigned version, unused, gpu, count; Metrics groups[10]; } MetricGroups;
typedef struct { unsigned version, count; struct { unsigned id, status; } rows[16]; } Modules;
typedef union { int64_t i64; double dbl; char str[256]; char blob[4096]; } Value;
typedef struct { unsigned version; unsigned short id, type; int status; int64_t ts; Value value; } V1;
typedef struct {
    unsigned version, group, entity; unsigned short id, type; int status; unsigned unused;
    int64_t ts; Value value;
} V2;
typedef int (*Each)(unsigned, unsigned, V1 *, int, void *);

static uintptr_t connected;
static struct { int used, count; Pair members[MEMBERS]; } groups[GROUPS];
static struct { int used, count; unsigned short ids[IDS]; char name[64]; } fields[GROUPS];
static int64_t watched_us[2048];
static char address[108];

static int64_t now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

int stub_left(void) {
    int left = connected != 0;
    for (int i = 1; i < GROUPS; i++) left += groups[i].used + fields[i].used;
    return left;
}
const char *stub_address(void) { return address; }

const char *errorString(int code) { return code == GONE ? "the stub is gone" : "the stub refuses"; }
int dcgmInit(void) { return OK; }
int dcgmConnect_v2(const char *to, Connect *how, uintptr_t *handle) {
    CHECK(how->version == VERSION(Connect, 2), VERSION_MISMATCH);
    snprintf(address, sizeof address, "%s%s", how->is_unix ? "unix:" : "", to);
    CHECK(strcmp(to, "127.0.0.1:1"), GONE);
    *handle = connected = 0x100000001;  /* wider than an int */
    return OK;
}
int dcgmDisconnect(uintptr_t handle) {
    CHECK(handle == connected && handle, BADPARAM);
    connected = 0;
    return OK;
}
static int version_of(Version *v, const char *text) {
    CHECK(v->version == VERSION(Version, 2), VERSION_MISMATCH);
    snprintf(v->text, sizeof v->text, "version:%s;arch:x86_64;buildtype:Release", text);
    return OK;
}
int dcgmVersionInfo(Version *v) { return version_of(v, "4.4.2"); }
int dcgmHostengineVersionInfo(uintptr_t handle, Version *v) {
    CHECK(handle == connected, BADPARAM);
    return version_of(v, "4.4.1");
}
int dcgmGetAllDevices(uintptr_t handle, unsigned ids[32], int *count) {
    CHECK(handle == connected, BADPARAM);
    for (*count = 0; *count < GPUS; ++*count) ids[*count] = *count;
    return OK;
}
int dcgmGetGpuInstanceHierarchy(uintptr_t handle, Hierarchy *h) {
    CHECK(handle == connected, BADPARAM);
    CHECK(h->version == VERSION(Hierarchy, 2), VERSION_MISMATCH);
    h->count = 2;
    h->rows[0] = (Mig){{4, 8}, {1, 1}, "", 1, 7, ~0u, 9, 3};
    h->rows[1] = (Mig){{5, 64}, {4, 8}, "", 1, 7, 0, 9, 3};
    return OK;
}
int dcgmGetGpuChipArchitecture(uintptr_t handle, unsigned gpu, unsigned *found) {
    CHECK(handle == connected && gpu < GPUS, BADPARAM);
    *found = 9;
    return OK;
}
int dcgmProfGetSupportedMetricGroups(uintptr_t handle, MetricGroups *m) {
    CHECK(handle == connected && m->gpu < GPUS, BADPARAM);
    CHECK(m->version == VERSION(MetricGroups, 3), VERSION_MISMATCH);
    m->count = 1;
    m->groups[0] = (Metrics){1, 2, 2, {1001, 1004}};
    return OK;
}
int dcgmModuleGetStatuses(uintptr_t handle, Modules *m) {
    CHECK(handle == connected, BADPARAM);
    CHECK(m->version == VERSION(Modules, 1), VERSION_MISMATCH);
    m->count = 1;
    m->rows[0].id = 8;
    m->rows[0].status = 5;
    return OK;
}
int dcgmGroupCreate(uintptr_t handle, int type, const char *name, uintptr_t *group) {
    CHECK(handle == connected && type == 1 && *name, BADPARAM);
    for (*group = 1; groups[*group].used; ++*group) CHECK(*group + 1 < GROUPS, -24);
    groups[*group].used = 1;
    groups[*group].count = 0;
    return OK;
}
int dcgmGroupAddEntity(uintptr_t handle, uintptr_t group, unsigned level, unsigned id) {
    CHECK(handle == connected && group < GROUPS && groups[group].used, BADPARAM);
    groups[group].members[groups[group].count++] = (Pair){level, id};
    return OK;
}
int dcgmGroupDestroy(uintptr_t handle, uintptr_t group) {
    CHECK(handle == connected && group < GROUPS && groups[group].used, BADPARAM);
    groups[group].used = 0;
    return OK;
}
int dcgmFieldGroupCreate(uintptr_t handle, int count, const unsigned short *ids, const char *name,
                         uintptr_t *group) {
    CHECK(handle == connected && count > 0 && count <= IDS, BADPARAM);
    for (int i = 0; i < count; i++) CHECK(ids[i] < 1200, BADPARAM);
    for (int i = 1; i < GROUPS; i++) CHECK(!fields[i].used || strcmp(fields[i].name, name), DUPLICATE);
    for (*group = 1; fields[*group].used; ++*group) CHECK(*group + 1 < GROUPS, -24);
    fields[*group].used = 1;
    fields[*group].count = count;
    memcpy(fields[*group].ids, ids, count * sizeof *ids);
    snprintf(fields[*group].name, sizeof fields[*group].name, "%s", name);
    return OK;
}
int dcgmFieldGroupDestroy(uintptr_t handle, uintptr_t group) {
    CHECK(handle == connected && group < GROUPS && fields[group].used, BADPARAM);
    fields[group].used = 0;
    return OK;
}
int dcgmWatchFields(uintptr_t handle, uintptr_t group, uintptr_t ids, long long period_us,
                    double keep_s, int samples) {
    CHECK(handle == connected && groups[group].used && fields[ids].used, BADPARAM);
    CHECK(period_us >= 100000 && keep_s >= 1 && keep_s < 1e5 && samples == 0, BADPARAM);
    for (int i = 0; i < fields[ids].count; i++) watched_us[fields[ids].ids[i]] = now_us();
    return OK;
}

static void fill(unsigned level, unsigned entity, unsigned short id, unsigned short *type, int *status,
                 int64_t *ts, Value *v) {
    *status = OK;
    *ts = watched_us[id];
    *type = 'i';
    if (!*ts) { *status = -16; return; }
    if (id == 230) { *status = NO_DATA; *ts = 0; return; }
    if (id == 50 || id == 54) {
        *type = 's';
        if (id == 50) snprintf(v->str, 256, level == 1 ? "NVIDIA H100 80GB HBM3" : "MIG 3g.40gb");
        else snprintf(v->str, 256, "%s-%u", level == 1 ? "GPU" : "MIG", entity);
    } else if (id > 1000 && id < 1084) {
        *type = 'd';
        v->dbl = 0.4375;
    } else {
        v->i64 = id == 100 ? 1410 : id == 113 ? 1980 : id == 94 ? 1 : entity;
    }
}
int dcgmEntitiesGetLatestValues(uintptr_t handle, Pair *pairs, unsigned count, unsigned short *ids,
                                unsigned n, unsigned flags, V2 *out) {
    CHECK(handle == connected && flags == 0, BADPARAM);
    for (unsigned i = 0; i < count; i++)
        for (unsigned j = 0; j < n; j++, out++) {
            out->version = VERSION(V2, 2);
            out->group = pairs[i].group;
            out->entity = pairs[i].id;
            out->id = ids[j];
            fill(pairs[i].group, pairs[i].id, ids[j], &out->type, &out->status, &out->ts, &out->value);
        }
    return OK;
}
int dcgmGetValuesSince_v2(uintptr_t handle, uintptr_t group, uintptr_t ids, long long since,
                          long long *next, Each each, void *data) {
    CHECK(handle == connected && groups[group].used && fields[ids].used && data == NULL, BADPARAM);
    int64_t now = now_us();
    for (int i = 0; i < groups[group].count; i++)
        for (int j = 0; j < fields[ids].count; j++) {
            V1 v = {.version = VERSION(V1, 1), .id = fields[ids].ids[j]};
            Pair p = groups[group].members[i];
            fill(p.group, p.id, v.id, &v.type, &v.status, &v.ts, &v.value);
            for (int64_t back = 2; back-- && !v.status;) {  /* two samples between two reads */
                v.ts = now - back;
                if (v.ts >= since) each(p.group, p.id, &v, 1, data);
            }
            if (v.status) each(p.group, p.id, &v, 1, data);
        }
    *next = now + 1;
    return OK;
}
