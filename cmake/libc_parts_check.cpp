// Calls what refers to the replaced parts of the C library: see LibcParts.cmake.
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include <dirent.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char** words) {
    std::vector<std::string> const texts(words, words + count);
    pid_t const child = fork();
    if (child == 0) std::exit(7);
    int status = 0;
    if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 7) return 1;
    char directory[4096];
    DIR* const opened = opendir(getcwd(directory, sizeof directory));
    if (!opened || sysconf(_SC_NPROCESSORS_ONLN) < 1) return 2;
    closedir(opened);
    try {
        if (std::strtoul(texts.at(0).c_str(), nullptr, 10) == 0) throw std::runtime_error("x");
    } catch (std::exception const& error) {
        pid_t spawned = 0;
        char* arguments[] = {directory, nullptr};
        bool const is_a_directory = posix_spawnp(&spawned, "/", nullptr, nullptr, arguments, arguments) != 0;
        return is_a_directory && std::strlen(error.what()) == 1 ? 0 : 3;
    }
    return 4;
}
