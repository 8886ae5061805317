#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace triton::cri {

/// The form of an answer.
enum class Shape : std::uint8_t {
    unary,   ///< one message
    stream,  ///< any number of messages
};

/// A method of the interface. What nobody serves answers UNIMPLEMENTED.
struct Method {
    std::string_view path;  ///< "/runtime.v1.RuntimeService/Version"
    Shape shape;

    /// "Version"
    [[nodiscard]] constexpr std::string_view name() const { return path.substr(path.rfind('/') + 1); }
};

/// All methods of runtime.proto, in its order.
inline constexpr std::array<Method, 46> methods{{
    {"/runtime.v1.RuntimeService/Version", Shape::unary},
    {"/runtime.v1.RuntimeService/RunPodSandbox", Shape::unary},
    {"/runtime.v1.RuntimeService/StopPodSandbox", Shape::unary},
    {"/runtime.v1.RuntimeService/RemovePodSandbox", Shape::unary},
    {"/runtime.v1.RuntimeService/PodSandboxStatus", Shape::unary},
    {"/runtime.v1.RuntimeService/ListPodSandbox", Shape::unary},
    {"/runtime.v1.RuntimeService/CreateContainer", Shape::unary},
    {"/runtime.v1.RuntimeService/StartContainer", Shape::unary},
    {"/runtime.v1.RuntimeService/StopContainer", Shape::unary},
    {"/runtime.v1.RuntimeService/RemoveContainer", Shape::unary},
    {"/runtime.v1.RuntimeService/ListContainers", Shape::unary},
    {"/runtime.v1.RuntimeService/ContainerStatus", Shape::unary},
    {"/runtime.v1.RuntimeService/UpdateContainerResources", Shape::unary},
    {"/runtime.v1.RuntimeService/ReopenContainerLog", Shape::unary},
    {"/runtime.v1.RuntimeService/ExecSync", Shape::unary},
    {"/runtime.v1.RuntimeService/Exec", Shape::unary},
    {"/runtime.v1.RuntimeService/Attach", Shape::unary},
    {"/runtime.v1.RuntimeService/PortForward", Shape::unary},
    {"/runtime.v1.RuntimeService/ContainerStats", Shape::unary},
    {"/runtime.v1.RuntimeService/ListContainerStats", Shape::unary},
    {"/runtime.v1.RuntimeService/PodSandboxStats", Shape::unary},
    {"/runtime.v1.RuntimeService/ListPodSandboxStats", Shape::unary},
    {"/runtime.v1.RuntimeService/UpdateRuntimeConfig", Shape::unary},
    {"/runtime.v1.RuntimeService/Status", Shape::unary},
    {"/runtime.v1.RuntimeService/CheckpointContainer", Shape::unary},
    {"/runtime.v1.RuntimeService/GetContainerEvents", Shape::stream},
    {"/runtime.v1.RuntimeService/ListMetricDescriptors", Shape::unary},
    {"/runtime.v1.RuntimeService/ListPodSandboxMetrics", Shape::unary},
    {"/runtime.v1.RuntimeService/RuntimeConfig", Shape::unary},
    {"/runtime.v1.RuntimeService/UpdatePodSandboxResources", Shape::unary},
    {"/runtime.v1.RuntimeService/StreamPodSandboxes", Shape::stream},
    {"/runtime.v1.RuntimeService/StreamContainers", Shape::stream},
    {"/runtime.v1.RuntimeService/StreamContainerStats", Shape::stream},
    {"/runtime.v1.RuntimeService/StreamPodSandboxStats", Shape::stream},
    {"/runtime.v1.RuntimeService/StreamPodSandboxMetrics", Shape::stream},
    {"/runtime.v1.RuntimeService/CheckpointPod", Shape::unary},
    {"/runtime.v1.RuntimeService/RestorePod", Shape::unary},
    {"/runtime.v1.ImageService/ListImages", Shape::unary},
    {"/runtime.v1.ImageService/ImageStatus", Shape::unary},
    {"/runtime.v1.ImageService/PullImage", Shape::unary},
    {"/runtime.v1.ImageService/RemoveImage", Shape::unary},
    {"/runtime.v1.ImageService/ImageFsInfo", Shape::unary},
    {"/runtime.v1.ImageService/StreamImages", Shape::stream},
    {"/runtime.v1.ImageService/PullSecurityProfile", Shape::unary},
    {"/runtime.v1.ImageService/ListSecurityProfiles", Shape::unary},
    {"/runtime.v1.ImageService/RemoveSecurityProfile", Shape::unary},
}};

/// nullptr: the interface has no such method.
Method const* find_method(std::string_view path);

/// The method of that name: for a caller that names one that exists, when the program is compiled.
consteval Method method(std::string_view name) {
    for (Method const& one : methods)
        if (one.name() == name) return one;
    throw "there is no such method";
}

}  // namespace triton::cri
