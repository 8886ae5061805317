/* The least that tells of a changed file: waits for a file that is renamed into a directory, reads it, and writes one line.
   usage: inotify_reader DIRECTORY */

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

static char content[1 << 16];

int main(int argc, char** argv) {
    int const notifications = inotify_init1(IN_CLOEXEC);
    if (argc != 2 || chdir(argv[1]) != 0 || inotify_add_watch(notifications, ".", IN_MOVED_TO) < 0) return 1;
    if (write(STDOUT_FILENO, "\n", 1) != 1) return 1;
    _Alignas(struct inotify_event) char buffer[sizeof(struct inotify_event) + NAME_MAX + 1];
    for (;;) {
        ssize_t const size = read(notifications, buffer, sizeof buffer);
        if (size <= 0) return 1;
        for (ssize_t at = 0; at < size;) {
            struct inotify_event const* const event = (struct inotify_event const*)(buffer + at);
            int const file = open(event->name, O_RDONLY | O_CLOEXEC);
            if (file >= 0 && read(file, content, sizeof content) >= 0) close(file);
            if (write(STDOUT_FILENO, "\n", 1) != 1) return 0;
            at += (ssize_t)sizeof *event + event->len;
        }
    }
}
