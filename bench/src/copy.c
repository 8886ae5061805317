// What copying costs at least: COUNT files of one directory into another that is empty, by copy_file_range alone. No
// mode, no time, nothing checked, and each file has its name before it is whole.
//   copy FROM TO       copy every regular file
//   copy -d FROM TO    and make all of it durable, once
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int copy(int from, int to, char const* name) {
    int const source = openat(from, name, O_RDONLY | O_CLOEXEC);
    int const target = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    ssize_t size;
    do {
        size = copy_file_range(source, NULL, target, NULL, 1 << 30, 0);
    } while (size > 0);
    close(source);
    close(target);
    return size == 0 ? 0 : -1;
}

int main(int argc, char** argv) {
    int const is_durable = argc > 1 && strcmp(argv[1], "-d") == 0;
    if (argc != 3 + is_durable) return 2;
    int const from = open(argv[argc - 2], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int const to = open(argv[argc - 1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR* const names = fdopendir(from);
    if (names == NULL || to < 0) return 1;
    for (struct dirent* entry; (entry = readdir(names)) != NULL;) {
        if (entry->d_type == DT_REG && copy(from, to, entry->d_name) != 0) {
            perror(entry->d_name);
            return 1;
        }
    }
    return is_durable && syncfs(to) != 0;
}
