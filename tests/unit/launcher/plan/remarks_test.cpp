// What an author may not have meant, although it works.

#include "launcher/plan/remarks.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace triton::launcher {

namespace {

TEST(Remarks, AShellKeepsSignalsFromWhatItHasStarted) {
    using Words = std::vector<std::string>;
    for (Words const& words : {Words{"sh", "-c", "server & wait"}, Words{"/bin/sh", "-ec", "prepare && server"},
                               Words{"sh", "-e", "-c", "server"}, Words{"/bin/busybox", "sh", "-c", "server"},
                               Words{"bash", "-c", "server & wait"}, Words{"bash", "-c", "server | tee log"},
                               Words{"sh", "-c", "server \"exec x\"\n"}})
        EXPECT_TRUE(keeps_signals_from_children(words)) << words.back();
    for (Words const& words :
         {Words{"sh", "-c", "exec server"}, Words{"sh", "-c", "prepare; exec server >log 2>&1"},
          Words{"bash", "-c", "prepare && server 2>&1"}, Words{"sh", "-c", "trap 'kill $!' TERM; server & wait"},
          Words{"sh", "/srv/start"}, Words{"server", "-c", "a & b"}, Words{"sh", "-c"}, Words{"sh"}, Words{}})
        EXPECT_FALSE(keeps_signals_from_children(words)) << (words.empty() ? "nothing" : words.back());
}

TEST(Remarks, SomeProgramsHaveAStopSignalOfTheirOwn) {
    EXPECT_EQ(customary_stop_signal("/usr/sbin/nginx"), "QUIT");
    EXPECT_EQ(customary_stop_signal("haproxy"), "USR1");
    EXPECT_EQ(customary_stop_signal("/srv/web"), std::nullopt);
}

TEST(Remarks, OnlyAShellReplacesPartsOfWords) {
    using Words = std::vector<std::string>;
    EXPECT_EQ(unexpanded_part(Words{"/srv/web", "--port", "${PORT}"}), "${PORT}");
    EXPECT_EQ(unexpanded_part(Words{"/srv/web", "http://$(POD_IP):80/${PATH}"}), "$(POD_IP)");
    EXPECT_EQ(unexpanded_part(Words{"gosu", "web", "/srv/web", "--port=${PORT:-80}"}), "${PORT:-80}");
    for (Words const& words : {Words{"sh", "-c", "exec web ${PORT}"},
                               Words{"tini", "--", "/bin/bash", "-c", "web $(PORT)"}, Words{"envsubst", "${PORT}"},
                               Words{"/srv/web", "$PORT", "${", "$()", "${a b}", "${PORT", "$$", "100$"}, Words{}})
        EXPECT_EQ(unexpanded_part(words), std::nullopt) << (words.empty() ? "nothing" : words.front());
}

}  // namespace

}  // namespace triton::launcher
