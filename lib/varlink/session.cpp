#include "lib/varlink/session.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace triton::varlink {

namespace {
constexpr std::size_t input_piece = 16 * 1024;   // in one round
constexpr std::size_t worth_moving = 64 * 1024;  // written output that is cut off the front

/// Cuts off the front, and gives memory back that only a long message has needed.
void cut(std::string& bytes, std::size_t size) {
    bytes.erase(0, size);
    if (bytes.empty() && bytes.capacity() > worth_moving) std::string().swap(bytes);  // an assignment would keep it
}
}  // namespace

void Session::find_message(std::size_t from, TimePoint now) {
    message_end_ = input_.find('\0', from);
    if (!has_partial_message()) {
        partial_since_ = {};
    } else if (partial_since_ == TimePoint{}) {
        partial_since_ = now;
    }
}

void Session::receive(std::size_t limit, TimePoint now) {
    std::array<char, input_piece> piece;
    std::size_t const room = std::min(piece.size(), limit - std::min(limit, input_.size()));
    if (room == 0) return;
    // A receiver without room for descriptors loses them, but still has to close them. So look first: then the kernel
    // only drops an extra reference. A message without descriptors is taken afterwards, exactly those bytes.
    iovec content{piece.data(), room};
    msghdr message{};
    message.msg_iov = &content;
    message.msg_iovlen = 1;
    ssize_t size = ::recvmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_PEEK);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size < 0 || (message.msg_flags & MSG_CTRUNC) != 0) return end();
    if (size > 0) size = ::recv(fd_.get(), piece.data(), static_cast<std::size_t>(size), MSG_DONTWAIT);
    if (size < 0) return end();
    if (size == 0) {
        is_at_end_ = true;
        return;
    }
    last_active_ = now;
    std::size_t const before = input_.size();
    input_.append(piece.data(), static_cast<std::size_t>(size));
    if (!has_message()) find_message(before, now);
}

std::string Session::take_message(TimePoint now) {
    std::string message = input_.substr(0, message_end_);
    cut(input_, message_end_ + 1);
    find_message(0, now);
    return message;
}

std::string& Session::output(TimePoint now) {
    if (pending() == 0) progress_at_ = now;
    return output_;
}

/// Whether the peer has not read everything yet. Source: unix(7), SIOCOUTQ; tcp(7) has the meaning.
bool Session::has_unread() const {
    int bytes = 0;
    return ::ioctl(fd_.get(), SIOCOUTQ, &bytes) == 0 && bytes > 0;
}

Duration Session::deaf_for(TimePoint now) const {
    return !is_dead() && has_unread() ? now - unread_since_ : Duration::zero();
}

void Session::flush(TimePoint now) {
    if (is_reader_watched_ && !is_dead() && pending() > 0 && !has_unread()) unread_since_ = now;
    while (!is_dead() && pending() > 0) {
        ssize_t const size = ::send(fd_.get(), output_.data() + written_, pending(), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (size < 0 && errno == EINTR) continue;
        if (size < 0 && (errno == EAGAIN || errno == ENOBUFS)) break;
        if (size < 0) return end();
        written_ += static_cast<std::size_t>(size);
        progress_at_ = last_active_ = now;
    }
    if (pending() == 0 || written_ >= worth_moving) {
        cut(output_, written_);
        written_ = 0;
    }
}

void Session::end() {
    watch = {};
    if (closer_ && *closer_ && fd_) (*closer_)(std::move(fd_));
    fd_ = {};
    input_.clear();
    message_end_ = std::string::npos;
    output_.clear();
    written_ = 0;
    end_job();
}

UniqueFd Session::release() {
    watch = {};
    UniqueFd connection = std::move(fd_);
    end();
    return connection;
}

void Session::begin(std::unique_ptr<Job> job) {
    if (job_) ended_jobs_.push_back(std::move(job_));
    job_ = std::move(job);
}

}  // namespace triton::varlink
