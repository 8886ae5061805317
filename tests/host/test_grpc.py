"""Our gRPC server against grpcio, which is the field's own library in C++."""

import signal
import tempfile

import grpc
import pytest
from grpc_place import PATIENCE, GrpcTool, stream, tool, unary  # noqa: F401 (fixture)


@pytest.mark.parametrize("size", [0, 1, 16384, 65535, 65536, 1_000_000, 16 << 20])
def test_messages_of_all_sizes_come_back(tool, size):
    content = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    assert tool.echo(content) == content


def test_a_message_above_the_limit_is_refused(tool):
    with pytest.raises(grpc.RpcError) as refused:
        tool.echo(b"x" * ((16 << 20) + 1))
    assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert refused.value.details() == "the message has 16777217 bytes, and at most 16777216 are accepted"
    assert tool.echo() == b"hello"


def test_a_compressed_message_is_refused(tool):
    with pytest.raises(grpc.RpcError) as refused:
        tool.echo(b"x" * 10_000, compression=grpc.Compression.Gzip)
    assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("text", ["", "plain", "50% of it", "line\nbreak", "caf\u00e9 \u2713 \U0001f600", "x" * 2000])
def test_errors_keep_their_code_and_text(tool, text):
    with tool.channel() as channel, pytest.raises(grpc.RpcError) as failed:
        unary(channel, "Fail")(b"5 " + text.encode(), timeout=PATIENCE)
    assert failed.value.code() == grpc.StatusCode.NOT_FOUND
    assert failed.value.details() == text


def test_an_unknown_method_is_unimplemented(tool):
    with tool.channel() as channel, pytest.raises(grpc.RpcError) as failed:
        unary(channel, "Missing")(b"", timeout=PATIENCE)
    assert failed.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_a_deadline_ends_a_call_on_both_sides(tool):
    with tool.channel() as channel, pytest.raises(grpc.RpcError) as failed:
        unary(channel, "Keep")(b"", timeout=0.2)
    assert failed.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    tool.wait_for_line("abandoned")


def test_a_cancelled_call_is_abandoned(tool):
    with tool.channel() as channel:
        call = unary(channel, "Keep").future(b"")
        assert unary(channel, "Echo")(b"x", timeout=PATIENCE) == b"x"  # the first one has arrived
        call.cancel()
        tool.wait_for_line("abandoned")


@pytest.mark.parametrize(("count", "size"), [(0, 0), (1, 0), (1000, 10), (20, 1 << 20)])
def test_streams_have_all_of_their_messages(tool, count, size):
    with tool.channel() as channel:
        got = list(stream(channel, "Stream")(f"{count} {size}".encode(), timeout=PATIENCE))
    assert got == [b"x" * size] * count


def test_a_stream_that_is_cancelled_ends(tool):
    with tool.channel() as channel:
        call = stream(channel, "Stream")(b"1000000 1000")
        assert len(next(call)) == 1000
        call.cancel()
        tool.wait_for_line("abandoned")


def test_more_calls_than_may_be_open_wait_for_each_other(tool):
    with tool.channel() as channel:
        calls = [unary(channel, "Echo").future(str(i).encode(), timeout=PATIENCE) for i in range(500)]
        assert [call.result() for call in calls] == [str(i).encode() for i in range(500)]


def test_a_shutdown_lets_open_calls_end(tool):
    with tool.channel() as channel:
        kept = unary(channel, "Keep").future(b"", timeout=PATIENCE)
        release = unary(channel, "Keep").future(b"", timeout=PATIENCE)
        assert unary(channel, "Echo")(b"x", timeout=PATIENCE) == b"x"
        tool.process.send_signal(signal.SIGTERM)
        kept.cancel()
        tool.wait_for_line("abandoned")
        assert tool.process.poll() is None, "a call is still open"
        release.cancel()
        assert tool.process.wait(PATIENCE) == 0


def test_a_stream_whose_reader_stalls_is_given_up():
    """The client's library takes no more than a window: the server's memory stays as it is, and the call ends."""
    with tempfile.TemporaryDirectory(prefix="triton-grpc.") as area:
        tool = GrpcTool(area, stall=300)
        try:
            with tool.channel(**{"grpc.http2.bdp_probe": 0}) as channel:
                call = stream(channel, "Stream")(b"100000 100000")
                next(call)
                tool.wait_for_line("abandoned")
        finally:
            tool.close()
