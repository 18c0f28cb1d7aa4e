/* Load over TCP, and a plain server to compare with: what bench/server.py runs, in processes of their own.
 *
 *   server_load send|poll|ping PORT CONNECTIONS SECONDS MESSAGES BYTES BATCHES THREADS
 *       one request at a time a connection, as the protocol's clients do: send appends MESSAGES of BYTES to topic
 *       bench/t<connection>, poll reads as many from it, from the beginning on over BATCHES sends, and again. A thread a
 *       connection, or one THREAD that waits for all of them, as the runtimes of existing clients do.
 *       send-today, poll-today and ping-today are the same in the frames of Iggy's protocol 0.11.
 *       Prints: requests, seconds, median and 99th percentile of a request's time in us, processor seconds of this process.
 *   server_load anchor PORT DIRECTORY BYTES
 *       a thread a connection: whatever is sent is written behind what is in its file, whatever is polled comes from memory;
 *       nothing is checked, stamped or remembered. BYTES is the size of the messages that it answers a poll with.
 *
 * Compiled by the benchmark: cc -O2 -pthread, with the headers of Python and of src/headstream/core/codec.
 */
#include "xxh3.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PING = 1, LOGIN = 38, POLL = 100, SEND = 101, MOST_TIMES = 1 << 22, MOST_POLLED = 1000 };

static const char *mode;
static int today; /* frames with a header of 256 bytes */
static int port, messages, bytes, batches;
static double seconds;
static const char *directory;

typedef struct {
    int number, socket;
    long requests;
    float *times;
    unsigned char *frame, *reply, *offset; /* offset: where a poll's request says from which message on */
    size_t size, room, got;
    double began;
} Client;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void die(const char *what) {
    perror(what);
    exit(1);
}

static void write_all(int s, const unsigned char *p, size_t size) {
    while (size) {
        ssize_t done = write(s, p, size);
        if (done <= 0) die("write");
        p += done;
        size -= done;
    }
}

static int read_all(int s, unsigned char *p, size_t size) {
    while (size) {
        ssize_t done = read(s, p, size);
        if (done <= 0) return 0;
        p += done;
        size -= done;
    }
    return 1;
}

static uint32_t load32(const unsigned char *p) {
    uint32_t value;
    memcpy(&value, p, 4);
    return value;
}

static unsigned char *put32(unsigned char *p, uint32_t value) {
    memcpy(p, &value, 4);
    return p + 4;
}

static unsigned char *put_name(unsigned char *p, const char *name) {
    *p++ = 2;
    *p++ = (unsigned char)strlen(name);
    memcpy(p, name, strlen(name));
    return p + strlen(name);
}

static int connect_to(void) {
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int s = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (connect(s, (struct sockaddr *)&place, sizeof place)) die("connect");
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return s;
}

static size_t head_size(void) { return today ? 256 : 8; }

/* The bytes of a response behind its head, and its status; an eviction's is its reason. */
static uint32_t rest_of(const unsigned char *reply) { return today ? load32(reply + 48) - 256 : load32(reply + 4); }

static uint32_t status_of(const unsigned char *reply) {
    return today ? reply[60] == 8 ? load32(reply + 216) : reply[255] : load32(reply);
}

static void set_size(unsigned char *frame, uint32_t size) {
    if (today) put32(frame + 48, size);
    else put32(frame, size - 4);
}

/* Send a request and read its response into `reply`; return its status. */
static uint32_t ask(int s, unsigned char *frame, uint32_t size, unsigned char *reply, size_t room) {
    set_size(frame, size);
    write_all(s, frame, size);
    size_t head = head_size();
    if (!read_all(s, reply, head)) die("read");
    uint32_t rest = rest_of(reply), status = status_of(reply);
    while (rest) {
        ssize_t done = read(s, reply + head, rest < room - head ? rest : room - head);
        if (done <= 0) die("read");
        rest -= done;
    }
    return status;
}

/* Write the frames of a batch behind its header of 256 bytes, and the header; return where they end. */
static unsigned char *put_batch(unsigned char *batch) {
    unsigned char *p = batch + 256, *summed = malloc(44 + 8 * (size_t)messages);
    for (int i = 0; i < messages; i++) {
        memset(p, 0, 48);
        put32(p + 36, bytes);
        hs_store64(p, 0, hs_xxh3(p, 8, 40 + (long long)bytes));
        memcpy(summed + 44 + 8 * i, p, 8);
        p += 48 + bytes;
    }
    memset(batch, 0, 256);
    hs_store64(batch, 24, 1700000000000000ULL);
    hs_store64(batch, 32, p - batch);
    put32(batch + 48, messages);
    memcpy(summed, batch, 40);
    memcpy(summed + 40, batch + 48, 4);
    hs_store64(batch, 40, hs_xxh3(summed, 0, 44 + 8 * (long long)messages));
    free(summed);
    return p;
}

/* Write the body of a poll from an offset, which prepare() sets; return where it ends. */
static unsigned char *put_poll(Client *client, unsigned char *p, const char *topic) {
    *p++ = 1;
    *p++ = 1;
    *p++ = 4;
    p = put_name(put_name(put32(p, 1), "bench"), topic);
    if (today) *p++ = 1; /* a partition follows, counted from 0 */
    p = put32(p, today ? 0 : 1);
    *p++ = 1;
    client->offset = p;
    memset(p, 0, 8);
    p = put32(p + 8, messages);
    *p++ = 0;
    return p;
}

/* As begin(), in the frames of protocol 0.11, after connecting. */
static void begin_today(Client *client) {
    unsigned char *frame = client->frame, *p;
    char topic[32];
    memset(frame, 0, 256);
    frame[60] = 5;
    frame[128] = client->number + 1;
    frame[176] = 1;
    memcpy(frame + 256, "\0\54\0\0\1b\1b\4iggy\4iggy\0\0\0\0", 22);
    if (ask(client->socket, frame, 256 + 22, client->reply, client->room)) die("login");
    memcpy(frame + 184, client->reply + 256 + 8, 8);
    frame[176] = 2;
    snprintf(topic, sizeof topic, "t%d", client->number);
    p = frame + 256;
    if (!strncmp(mode, "ping", 4)) {
        put32(frame + 196, PING);
    } else if (!strncmp(mode, "send", 4)) {
        frame[176] = 160;
        p = put_name(put_name(p + 4, "bench"), topic);
        *p++ = 2;
        *p++ = 4;
        p = put32(put32(p, 0), messages);
        put32(frame + 256, p - frame - 260);
        p = put_batch(p);
    } else {
        put32(frame + 196, POLL);
        p = put_poll(client, p, topic);
    }
    client->size = p - frame;
    set_size(frame, client->size);
}

/* Connect, log in, and make the request that is asked again and again. */
static void begin(Client *client) {
    client->room = (size_t)messages * (bytes + 320) + 4096;
    unsigned char *frame = client->frame = malloc(client->room), *p;
    char topic[32];
    client->reply = malloc(client->room);
    client->socket = connect_to();
    memset(frame, 'x', client->room);
    memset(client->reply, 0, client->room);
    if (today) {
        begin_today(client);
        return;
    }
    p = put32(frame + 4, LOGIN);
    memcpy(p, "\4iggy\4iggy\0\0\0\0\0\0\0\0", 18);
    if (ask(client->socket, frame, 8 + 18, client->reply, client->room)) die("login");
    snprintf(topic, sizeof topic, "t%d", client->number);
    p = frame + 8;
    if (!strcmp(mode, "ping")) {
        put32(frame + 4, PING);
    } else if (!strcmp(mode, "send")) {
        put32(frame + 4, SEND);
        p = put_name(put_name(p, "bench"), topic);
        *p++ = 2;
        *p++ = 4;
        p = put32(p, 1);
        for (int i = 0; i < messages; i++) {
            memset(p, 0, 20);
            p = put32(p + 20, bytes) + bytes;
        }
    } else {
        put32(frame + 4, POLL);
        p = put_poll(client, p, topic);
    }
    client->size = p - frame;
    put32(frame, client->size - 4);
}

static void prepare(Client *client) {
    if (!client->offset) return;
    uint64_t at = (uint64_t)(client->requests % batches) * messages;
    memcpy(client->offset, &at, 8);
}

/* Take note of a request that was answered, and return when. */
static double note(Client *client, uint32_t status) {
    if (status) {
        fprintf(stderr, "status %u\n", status);
        exit(1);
    }
    double ended = now();
    if (client->requests < MOST_TIMES) client->times[client->requests] = (ended - client->began) * 1e6;
    client->began = ended;
    client->requests++;
    return ended;
}

/* One connection in a thread of its own. */
static void *run(void *argument) {
    Client *client = argument;
    begin(client);
    double until = now() + seconds;
    client->began = now();
    do prepare(client);
    while (note(client, ask(client->socket, client->frame, client->size, client->reply, client->room)) < until);
    close(client->socket);
    return NULL;
}

/* All connections in this thread, which waits for all of them at once. */
static void run_together(Client *clients, int connections) {
    struct epoll_event events[64];
    int waiting = epoll_create1(0), open = connections;
    for (int i = 0; i < connections; i++) begin(&clients[i]);
    double until = now() + seconds;
    for (int i = 0; i < connections; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &clients[i]};
        epoll_ctl(waiting, EPOLL_CTL_ADD, clients[i].socket, &event);
        prepare(&clients[i]);
        clients[i].began = now();
        write_all(clients[i].socket, clients[i].frame, clients[i].size);
    }
    while (open) {
        int count = epoll_wait(waiting, events, 64, -1);
        for (int i = 0; i < count; i++) {
            Client *client = events[i].data.ptr;
            ssize_t done = read(client->socket, client->reply + client->got, client->room - client->got);
            if (done <= 0) die("read");
            client->got += done;
            if (client->got < head_size() || client->got < head_size() + rest_of(client->reply)) continue;
            client->got = 0;
            if (note(client, status_of(client->reply)) < until) {
                prepare(client);
                write_all(client->socket, client->frame, client->size);
            } else {
                close(client->socket);
                open--;
            }
        }
    }
}

static int compare(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static int load(int connections, int threads_count) {
    Client *clients = calloc(connections, sizeof *clients);
    pthread_t *threads = calloc(connections, sizeof *threads);
    double began = now();
    for (int i = 0; i < connections; i++) {
        clients[i].number = i;
        clients[i].times = malloc(MOST_TIMES / (connections > 8 ? 16 : 1) * sizeof(float));
        if (threads_count > 1) pthread_create(&threads[i], NULL, run, &clients[i]);
    }
    if (threads_count == 1) run_together(clients, connections);
    long requests = 0, kept = 0;
    for (int i = 0; i < connections && threads_count > 1; i++) pthread_join(threads[i], NULL);
    double took = now() - began;
    for (int i = 0; i < connections; i++) requests += clients[i].requests;
    float *times = malloc(requests * sizeof(float));
    for (int i = 0; i < connections; i++)
        for (long j = 0; j < clients[i].requests && j < MOST_TIMES; j++) times[kept++] = clients[i].times[j];
    qsort(times, kept, sizeof(float), compare);
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    printf("%ld %f %f %f %f\n", requests, took, times[kept / 2], times[kept * 99 / 100],
           used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
    return 0;
}

static void *serve(void *argument) {
    int s = (int)(intptr_t)argument, one = 1;
    size_t room = 64 << 20;
    unsigned char *buffer = malloc(room), *memory = calloc(1, room);
    for (int i = 0; i < MOST_POLLED; i++) {
        unsigned char *message = memory + 24 + (size_t)i * (45 + bytes);
        message[8] = 1; /* available; its offset, time, id, checksum and headers are 0 */
        put32(message + 41, bytes);
    }
    char path[4096];
    snprintf(path, sizeof path, "%s/%d", directory, s);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    off_t end = 0;
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    while (read_all(s, buffer, 8)) {
        uint32_t size = load32(buffer) - 4, code = load32(buffer + 4), answer = code == LOGIN ? 4 : 0;
        if (!read_all(s, buffer + 8, size)) break;
        if (code == SEND) {
            if (pwrite(file, buffer + 8, size, end) < 0) die("pwrite");
            end += size;
        } else if (code == POLL) {
            answer = 16 + load32(buffer + 8 + size - 5) * (45 + bytes);
            put32(memory + 20, load32(buffer + 8 + size - 5));
        }
        put32(put32(memory, 0), answer);
        write_all(s, memory, 8 + answer);
    }
    close(file);
    unlink(path);
    close(s);
    free(buffer);
    free(memory);
    return NULL;
}

static int anchor(void) {
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listening = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listening, (struct sockaddr *)&place, sizeof place) || listen(listening, 1024)) die("listen");
    printf("ready\n");
    fflush(stdout);
    for (;;) {
        pthread_t thread;
        int s = accept(listening, NULL, NULL);
        pthread_create(&thread, NULL, serve, (void *)(intptr_t)s);
        pthread_detach(thread);
    }
}

int main(int count, char **words) {
    if (count == 5 && !strcmp(words[1], "anchor")) {
        port = atoi(words[2]);
        directory = words[3];
        bytes = atoi(words[4]);
        return anchor();
    }
    if (count != 9) return 2;
    mode = words[1];
    today = strstr(mode, "-today") != NULL;
    port = atoi(words[2]);
    seconds = atof(words[4]);
    messages = atoi(words[5]);
    bytes = atoi(words[6]);
    batches = atoi(words[7]);
    return load(atoi(words[3]), atoi(words[8]));
}
