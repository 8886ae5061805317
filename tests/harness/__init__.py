"""What the Python suites (integration, kubernetes, hostile) are written with.

process             launchers in namespaces of their own, streams of lines, waiting with a deadline
programs            documents with `programs`, and launchers that run them
control             a launcher with its control socket: ctl, and plain Varlink
person              somebody at a terminal, attached to a program's
agent               triton-launch-agent, certificates, and a launcher's stand-in
kubernetes_standin  an API server that misbehaves on demand
dns_standin         a DNS server whose answers a test changes
fixtures            what their conftest.py share
helpers/            C programs: `place` makes the namespaces, `probe` is what launchers run
"""
