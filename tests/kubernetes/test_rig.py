"""What the other tests rely on: the cluster of the rig behaves as one with a kubelet in the points that matter."""

import http.client
import json

from harness.process import eventually
from rig import PORT, SERVICE_ACCOUNT


def ask(cluster, token, method, path, body=None, headers=None):
    """A request with a token: status and body."""
    connection = http.client.HTTPSConnection(cluster.host, PORT, timeout=10, context=cluster.authority.client())
    try:
        connection.request(method, path, body=body, headers={"Authorization": f"Bearer {token}", **(headers or {})})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def annotate(cluster, pod, token):
    """A patch of the pod as the account: status and body."""
    return ask(cluster, token, "PATCH", f"/api/v1/namespaces/{pod.namespace.name}/pods/{pod.name}",
               json.dumps({"metadata": {"annotations": {"a": "b"}}}), {"Content-Type": "application/merge-patch+json"})


def test_the_token_is_worth_as_much_as_its_pod(cluster, pod):
    token = (pod.account.directory / "token").read_text()
    assert annotate(cluster, pod, token)[0] == 200
    pod.delete()
    pod.create()
    cluster.restart_api()  # it remembers for ten seconds that a token was good
    assert annotate(cluster, pod, token)[0] == 401
    assert annotate(cluster, pod, (pod.account.directory / "token").read_text())[0] == 200


def test_a_verb_that_is_taken_away_is_missing(cluster, namespace, pod):
    token = namespace.token()
    namespace.set_verbs(pods=["watch"])

    def answers_denied():
        status, body = annotate(cluster, pod, token)
        return body["message"] if status == 403 else None

    message = eventually(answers_denied, "the API server takes notice of the role")
    assert f'"system:serviceaccount:{namespace.name}:{SERVICE_ACCOUNT}" cannot patch resource "pods"' in message


def test_requests_are_counted(cluster, namespace, pod):
    assert namespace.requests() == []
    annotate(cluster, pod, namespace.token())
    request, = eventually(lambda: namespace.requests("patch", "pods"), "the audit")
    assert request["requestObject"] == {"metadata": {"annotations": {"a": "b"}}}
    assert request["responseStatus"]["code"] == 200


def test_a_watch_of_before_the_restart_is_gone(cluster, namespace, pod):
    """Whoever resumes a watch that the API server has forgotten gets 410 and has to begin anew."""
    version = pod.object()["metadata"]["resourceVersion"]
    cluster.kill_api()
    cluster.forget_the_past()
    cluster.start_api()
    path = f"/api/v1/namespaces/{namespace.name}/pods?watch=1&resourceVersion={version}&timeoutSeconds=1"
    connection = http.client.HTTPSConnection(cluster.host, PORT, timeout=10, context=cluster.authority.client())
    connection.request("GET", path, headers={"Authorization": f"Bearer {namespace.token()}"})
    answer = connection.getresponse()
    body = json.loads(answer.readline() if answer.status == 200 else answer.read())
    connection.close()
    assert 410 in (answer.status, body.get("object", {}).get("code")), body

