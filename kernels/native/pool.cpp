// The thread pool (whimbrel.h says how it behaves).
#include "whimbrel.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#if defined(__linux__)
#include <sched.h>
#endif

#include <atomic>
#include <new>

namespace whimbrel {
namespace {

constexpr int kMost = 256;

struct alignas(64) Part {
    std::atomic<uint64_t> range{0};  // begin in the high half, end in the low half, in pieces
};

struct Pool {
    pthread_mutex_t user = PTHREAD_MUTEX_INITIALIZER;  // held by the caller of parallel
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t begin = PTHREAD_COND_INITIALIZER;
    pthread_cond_t end = PTHREAD_COND_INITIALIZER;
    int started = 0;          // threads beside the caller
    uint64_t generation = 0;  // of the job; guarded by lock
    int awake = 0;            // threads inside the job; guarded by lock
    bool open = false;        // the job may still be entered; guarded by lock
    int parts = 0;
    Body body = nullptr;
    void* context = nullptr;
    int64_t count = 0, grain = 1;
    Part part[kMost];
};

alignas(Pool) char storage[sizeof(Pool)];
Pool* pool = new (storage) Pool;
std::atomic<int> wanted{0};
thread_local bool inside = false;

int quota() {
    FILE* file = fopen("/sys/fs/cgroup/cpu.max", "r");
    if (!file) return kMost;
    long long allowed = 0, period = 0;
    int fields = fscanf(file, "%lld %lld", &allowed, &period);
    fclose(file);
    if (fields != 2 || allowed <= 0 || period <= 0) return kMost;
    long long whole = (allowed + period - 1) / period;
    return whole < kMost ? static_cast<int>(whole) : kMost;
}

int processors() {
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? static_cast<int>(online) : 1;
}

bool take(Part& part, bool front, int64_t& piece) {
    uint64_t range = part.range.load(std::memory_order_relaxed);
    for (;;) {
        uint32_t from = static_cast<uint32_t>(range >> 32), to = static_cast<uint32_t>(range);
        if (from >= to) return false;
        uint64_t rest = front ? (uint64_t(from + 1) << 32 | to) : (uint64_t(from) << 32 | (to - 1));
        if (part.range.compare_exchange_weak(range, rest, std::memory_order_acq_rel)) {
            piece = front ? from : to - 1;
            return true;
        }
    }
}

void work(Pool* p, int self) {
    inside = true;
    for (int step = 0; step < p->parts; ++step) {
        Part& part = p->part[(self + step) % p->parts];
        int64_t piece;
        while (take(part, step == 0, piece)) {
            int64_t from = piece * p->grain, to = from + p->grain;
            p->body(p->context, from, to < p->count ? to : p->count);
        }
    }
    inside = false;
}

struct Start {
    Pool* pool;
    int self;
};

void* thread_main(void* argument) {
    Start start = *static_cast<Start*>(argument);
    delete static_cast<Start*>(argument);
    Pool* p = start.pool;
    uint64_t seen = 0;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (!p->open || p->generation == seen || start.self >= p->parts) {
            if (p->open) seen = p->generation;
            pthread_cond_wait(&p->begin, &p->lock);
        }
        seen = p->generation;
        ++p->awake;
        pthread_mutex_unlock(&p->lock);
        work(p, start.self);
        pthread_mutex_lock(&p->lock);
        if (--p->awake == 0) pthread_cond_signal(&p->end);
    }
}

// Only the forking thread lives on in the child: the pool of the parent is forgotten, not taken down.
void in_child() {
    pool = new (storage) Pool;
    inside = false;
}

void ensure(Pool* p, int helpers) {
    static bool once = [] {
        pthread_atfork(nullptr, nullptr, in_child);
        return true;
    }();
    (void)once;
    sigset_t all, before;
    sigfillset(&all);
    while (p->started < helpers) {
        Start* start = new (std::nothrow) Start{p, p->started + 1};
        if (!start) return;
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        pthread_sigmask(SIG_SETMASK, &all, &before);  // signals belong to the interpreter's own thread
        pthread_t thread;
        int failed = pthread_create(&thread, &attributes, thread_main, start);
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
        pthread_attr_destroy(&attributes);
        if (failed) {  // a limit of processes: fewer threads do the same work
            delete start;
            return;
        }
        ++p->started;
    }
}

}  // namespace

int threads() {
    int n = wanted.load(std::memory_order_relaxed);
    if (n > 0) return n;
    const char* text = getenv("WHIMBREL_THREADS");
    n = text ? atoi(text) : 0;
    if (n <= 0) {
        int all = processors(), allowed = quota();
        n = all < allowed ? all : allowed;
    }
    n = n < 1 ? 1 : n > kMost ? kMost : n;
    wanted.store(n, std::memory_order_relaxed);
    return n;
}

void parallel_raw(int64_t count, int64_t grain, Body body, void* context) {
    if (count <= 0) return;
    if (grain < 1) grain = 1;
    int64_t pieces = (count + grain - 1) / grain;
    while (pieces > 0x7fffffff) {
        grain *= 2;
        pieces = (count + grain - 1) / grain;
    }
    int n = threads();
    if (pieces < n) n = static_cast<int>(pieces);
    if (n <= 1 || inside || pthread_mutex_trylock(&pool->user) != 0) {
        body(context, 0, count);
        return;
    }
    Pool* p = pool;
    ensure(p, n - 1);
    n = n < p->started + 1 ? n : p->started + 1;
    pthread_mutex_lock(&p->lock);
    p->body = body;
    p->context = context;
    p->count = count;
    p->grain = grain;
    p->parts = n;
    for (int i = 0; i < n; ++i) {
        uint64_t from = pieces * i / n, to = pieces * (i + 1) / n;
        p->part[i].range.store(from << 32 | to, std::memory_order_relaxed);
    }
    ++p->generation;
    p->open = true;
    pthread_mutex_unlock(&p->lock);
    if (n == 2 && p->started == 1)
        pthread_cond_signal(&p->begin);
    else
        pthread_cond_broadcast(&p->begin);
    work(p, 0);
    pthread_mutex_lock(&p->lock);
    p->open = false;  // who did not wake in time has nothing left to do
    while (p->awake) pthread_cond_wait(&p->end, &p->lock);
    pthread_mutex_unlock(&p->lock);
    pthread_mutex_unlock(&p->user);
}

namespace {

struct Scratch {
    void* memory[8] = {};
    size_t size[8] = {};
    ~Scratch() {
        for (void* piece : memory) free(piece);
    }
};
thread_local Scratch scratches;

}  // namespace

void* scratch(int slot, size_t bytes) {
    Scratch& mine = scratches;
    if (mine.size[slot] < bytes) {
        free(mine.memory[slot]);
        size_t rounded = (bytes + 4095) / 4096 * 4096;
        void* memory = nullptr;
        if (posix_memalign(&memory, 64, rounded) != 0) memory = nullptr;
        mine.memory[slot] = memory;
        mine.size[slot] = memory ? rounded : 0;
    }
    return mine.memory[slot];
}

}  // namespace whimbrel

WHIMBREL_EXPORT int whimbrel_threads() { return whimbrel::threads(); }

// 0: ask the environment and the processor again.
WHIMBREL_EXPORT void whimbrel_set_threads(int n) {
    whimbrel::wanted.store(n < 0 ? 0 : n > whimbrel::kMost ? whimbrel::kMost : n);
}

// For tests: adds 1 to every place of counts[0..n) through the pool.
WHIMBREL_EXPORT void whimbrel_count(int32_t* counts, int64_t n, int64_t grain) {
    whimbrel::parallel(n, grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) ++counts[i];
    });
}
