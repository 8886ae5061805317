// critest, the conformance suite of the container runtime interface, which the test of this folder runs; tests/kubernetes/build critest makes it.
module tritonlaunch.org/tests/critest

go 1.26.6

require sigs.k8s.io/cri-tools v1.37.0
