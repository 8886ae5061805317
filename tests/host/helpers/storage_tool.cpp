// One operation of host/storage for each call: what the Python suite and the benchmark drive a pool with.
//
// usage: storage_tool BACKEND PATH DATASET COMMAND ARGUMENT...
//
// BACKEND: auto, zfs, btrfs, reflink or directory; DATASET: "-" for none. Prints what was asked for, or on stderr one
// line "kind: text" of the error and exits with 1.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <unistd.h>

#include "host/storage/pool.h"
#include "lib/base/error_kinds.h"

namespace triton::storage {
namespace {

using Arguments = std::vector<std::string>;

[[noreturn]] void give_up(Error const& error) {
    std::fprintf(stderr, "%s: %s\n", std::string(row_of(error.kind).name).c_str(), error.text().c_str());
    std::exit(1);
}

template <class T>
T need(Result<T> result) {
    if (!result) give_up(result.error());
    return *std::move(result);
}

void need(Result<> const& result) {
    if (!result) give_up(result.error());
}

TreeName tree(std::string const& text) { return need(TreeName::parse(text)); }
SnapshotName snapshot(std::string const& text) { return need(SnapshotName::parse(text)); }
void print(std::string const& line) { std::puts(line.c_str()); }
std::string number(std::optional<std::uint64_t> value) { return value ? std::to_string(*value) : "none"; }

/// What `bench` prints: microseconds of each of so many clones, and of destroying them.
void bench(Pool& pool, Arguments const& a) {
    int const count = std::atoi(a.at(2).c_str());
    auto const timed = [&](char const* what, std::function<void(int)> const& act) {
        for (int i = 0; i < count; ++i) {
            auto const begin = std::chrono::steady_clock::now();
            act(i);
            auto const took = std::chrono::steady_clock::now() - begin;
            std::printf("%s %lld\n", what,
                        static_cast<long long>(std::chrono::microseconds(took / std::chrono::microseconds(1)).count()));
        }
    };
    timed("clone",
          [&](int i) { need(pool.clone(tree(a.at(0)), snapshot(a.at(1)), tree("bench/c" + std::to_string(i)))); });
    timed("destroy", [&](int i) { need(pool.destroy(tree("bench/c" + std::to_string(i)))); });
}

struct Command {
    std::size_t arguments;
    std::function<void(Pool&, Arguments const&)> act;
};

std::map<std::string, Command> const& commands() {
    static std::map<std::string, Command> const table{
        {"kind",
         {0,
          [](Pool& p, Arguments const&) {
              print(std::string(name_of(p.kind())) + (p.clones_are_free() ? " free" : " copies"));
          }}},
        {"make", {1, [](Pool& p, Arguments const& a) { need(p.make(tree(a[0]))); }}},
        {"clone", {3, [](Pool& p, Arguments const& a) { need(p.clone(tree(a[0]), snapshot(a[1]), tree(a[2]))); }}},
        {"snapshot", {2, [](Pool& p, Arguments const& a) { need(p.snapshot(tree(a[0]), snapshot(a[1]))); }}},
        {"delete-snapshot",
         {2, [](Pool& p, Arguments const& a) { need(p.delete_snapshot(tree(a[0]), snapshot(a[1]))); }}},
        {"rename-snapshot",
         {3, [](Pool& p, Arguments const& a) { need(p.rename_snapshot(tree(a[0]), snapshot(a[1]), snapshot(a[2]))); }}},
        {"origin",
         {1,
          [](Pool& p, Arguments const& a) {
              auto const origin = need(p.origin(tree(a[0])));
              print(origin ? origin->text() : "none");
          }}},
        {"send-since-origin",
         {2,
          [](Pool& p, Arguments const& a) { need(p.send_since_origin(tree(a[0]), snapshot(a[1]), STDOUT_FILENO)); }}},
        {"rollback", {2, [](Pool& p, Arguments const& a) { need(p.rollback(tree(a[0]), snapshot(a[1]))); }}},
        {"rename", {2, [](Pool& p, Arguments const& a) { need(p.rename(tree(a[0]), tree(a[1]))); }}},
        {"destroy", {1, [](Pool& p, Arguments const& a) { need(p.destroy(tree(a[0]))); }}},
        {"set-quota",
         {2,
          [](Pool& p, Arguments const& a) {
              need(p.set_quota(
                  tree(a[0]), a[1] == "none" ? std::nullopt : std::optional(std::strtoull(a[1].c_str(), nullptr, 10))));
          }}},
        {"quota", {1, [](Pool& p, Arguments const& a) { print(number(need(p.quota(tree(a[0]))))); }}},
        {"quotas",
         {2,
          [](Pool& p, Arguments const& a) {
              for (auto const& [found, limit] : need(p.quotas({tree(a[0]), tree(a[1])})))
                  print(found.text() + ' ' + std::to_string(limit));
          }}},
        {"set-property", {3, [](Pool& p, Arguments const& a) { need(p.set_property(tree(a[0]), a[1], a[2])); }}},
        {"properties",
         {1,
          [](Pool& p, Arguments const& a) {
              for (auto const& [key, value] : need(p.properties(tree(a[0]))))
                  print(key + '=' + value);
          }}},
        {"send",
         {3,
          [](Pool& p, Arguments const& a) {
              auto const from = a[2] == "-" ? std::nullopt : std::optional(snapshot(a[2]));
              need(p.send(tree(a[0]), snapshot(a[1]), from, STDOUT_FILENO));
          }}},
        {"receive", {1, [](Pool& p, Arguments const& a) { need(p.receive(tree(a[0]), STDIN_FILENO)); }}},
        {"usage",
         {1,
          [](Pool& p, Arguments const& a) {
              Usage const usage = need(p.usage(tree(a[0])));
              print(std::to_string(usage.used) + ' ' + std::to_string(usage.referenced) + ' ' + number(usage.quota));
          }}},
        {"space",
         {0,
          [](Pool& p, Arguments const&) {
              Space const space = need(p.space());
              print(std::to_string(space.total) + ' ' + std::to_string(space.free) + ' ' + number(space.inodes_free));
          }}},
        {"exists", {1, [](Pool& p, Arguments const& a) { print(need(p.exists(tree(a[0]))) ? "yes" : "no"); }}},
        {"list",
         {1,
          [](Pool& p, Arguments const& a) {
              for (TreeName const& name : need(p.list(a[0])))
                  print(name.text());
          }}},
        {"snapshots",
         {1,
          [](Pool& p, Arguments const& a) {
              for (SnapshotName const& name : need(p.snapshots(tree(a[0]))))
                  print(name.text());
          }}},
        {"snapshot-facts",
         {1,
          [](Pool& p, Arguments const& a) {
              for (SnapshotFacts const& facts : need(p.snapshot_facts(tree(a[0]))))
                  print(facts.name.text() + ' ' + (facts.created_at ? std::to_string(*facts.created_at) : "-") + ' ' +
                        number(facts.used));
          }}},
        {"path",
         {1,
          [](Pool& p, Arguments const& a) {
              (void)need(p.open(tree(a[0])));
              print(p.path(tree(a[0])));
          }}},
        {"recover",
         {0,
          [](Pool& p, Arguments const&) {
              for (std::string const& line : need(p.recover()))
                  print(line);
          }}},
        {"bench", {3, bench}},
    };
    return table;
}

void run(Arguments const& arguments) {
    std::string const& command = arguments.at(3);
    std::string const dataset = arguments[2] == "-" ? "" : arguments[2];
    if (command == "probe") {
        Probe const found = need(probe(arguments[1], dataset));
        print(std::string(name_of(found.backend)));
        for (std::string const& reason : found.reasons)
            print(reason);
        return;
    }
    Settings settings;
    if (arguments[0] != "auto") settings.backend = need(parse_backend(arguments[0]));
    settings.path = arguments[1];
    settings.dataset = dataset;
    if (char const* const patience = std::getenv("PATIENCE_MS"))
        settings.patience = std::chrono::milliseconds(std::atoi(patience));
    auto const pool = need(open_pool(settings));
    Arguments const rest(arguments.begin() + 4, arguments.end());
    auto const found = commands().find(command);
    if (found == commands().end() || rest.size() != found->second.arguments)
        give_up({.attempted = {}, .reason = "usage", .details = {}});
    found->second.act(*pool, rest);
}

}  // namespace
}  // namespace triton::storage

int main(int argc, char** argv) {
    if (argc < 5) {
        std::fputs("usage: storage_tool BACKEND PATH DATASET COMMAND ARGUMENT...\n", stderr);
        return 2;
    }
    triton::storage::run({argv + 1, argv + argc});
    return 0;
}
