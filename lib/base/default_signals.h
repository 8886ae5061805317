#pragma once

namespace triton {

/// Gives the signals their defaults back that waiting depends on, and lets them through: a caller may have ignored or
/// blocked them, which execve(2) keeps. Where SIGCHLD is ignored, nobody learns how a child has ended (waitpid(2)), and
/// a blocked SIGALRM ends no wait. For the beginning of main().
void take_default_signals();

}  // namespace triton
