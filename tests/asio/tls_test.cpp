// TLS: asio::ssl::stream over asio_stream, by its synchronous functions.
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <boost/asio/buffer.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>
#include <coir/asio_stream.hpp>
#include <coir/coir.hpp>
#include <coir/net.hpp>

#include "coir_test.hpp"
#include "net_test.hpp"

namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
namespace ssl = asio::ssl;
using boost::system::error_code;
using coir::net::tcp_stream;
using tls_stream = ssl::stream<coir::asio_stream<tcp_stream>>;

/// A certificate that is made here and now, signed by itself.
ssl::context server_context() {
  using key_pointer = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
  using certificate_pointer = std::unique_ptr<X509, decltype(&X509_free)>;
  const key_pointer key(EVP_EC_gen("P-256"), &EVP_PKEY_free);
  const certificate_pointer certificate(X509_new(), &X509_free);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_set_pubkey(certificate.get(), key.get());
  X509_NAME* const name = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
  X509_set_issuer_name(certificate.get(), name);
  X509_sign(certificate.get(), key.get(), EVP_sha256());

  ssl::context context(ssl::context::tls_server);
  SSL_CTX_use_certificate(context.native_handle(), certificate.get());
  SSL_CTX_use_PrivateKey(context.native_handle(), key.get());
  return context;
}

class tls_test : public net_test::no_descriptor_left {
 protected:
  // Asio makes the service of a stream's timers once, with descriptors of its own.
  static void SetUpTestSuite() { tls_stream(tcp_stream(), client()); }

  static ssl::context& server() {
    static ssl::context context = server_context();
    return context;
  }
  static ssl::context& client() {
    static ssl::context context(ssl::context::tls_client);
    return context;
  }

  /// Both ends after their handshakes.
  static std::pair<std::unique_ptr<tls_stream>, std::unique_ptr<tls_stream>> connected() {
    auto [a, b] = net_test::tcp_pair();
    auto one = std::make_unique<tls_stream>(std::move(a), client());
    auto other = std::make_unique<tls_stream>(std::move(b), server());
    coir::task<void> accepting = coir::spawn([&other] { other->handshake(ssl::stream_base::server); });
    one->handshake(ssl::stream_base::client);
    accepting.get();
    return {std::move(one), std::move(other)};
  }
};

TEST_P(tls_test, HandshakeDataAndShutdownBlockTheFiberAlone) {
  run([] {
    auto [one, other] = connected();
    const std::string text(300'000, 't');
    coir::task<void> sender = coir::spawn([&, &s = *one] {
      asio::write(s, asio::buffer(text));
      s.shutdown();
    });
    std::string heard;
    error_code end;
    asio::read(*other, asio::dynamic_buffer(heard), end);
    EXPECT_EQ(end, asio::error::eof);
    EXPECT_EQ(heard, text);
    other->shutdown();
    sender.get();
  });
}

TEST_P(tls_test, APeerThatVanishesIsNoOrderlyEnd) {
  run([] {
    auto [one, other] = connected();
    one->next_layer().next_layer().shutdown(coir::net::shutdown_how::write);
    char c = 0;
    error_code error;
    other->read_some(asio::buffer(&c, 1), error);
    EXPECT_EQ(error, ssl::error::stream_truncated);
  });
}

TEST_P(tls_test, AHandshakeHasADeadlineAndCanBeCancelled) {
  run([] {
    auto [silent, b] = net_test::tcp_pair();
    tls_stream late(std::move(b), server());
    late.lowest_layer().next_layer().set_read_deadline(std::chrono::steady_clock::now() + 1ms);
    error_code error;
    late.handshake(ssl::stream_base::server, error);
    EXPECT_EQ(error, asio::error::timed_out);

    auto [silent_too, d] = net_test::tcp_pair();
    coir::task<void> handshake = coir::spawn([stream = std::move(d)]() mutable {
      tls_stream s(std::move(stream), server());
      s.handshake(ssl::stream_base::server);
    });
    coir_test::until_blocked(handshake);
    handshake.request_stop();
    EXPECT_THROW(handshake.get(), coir::task_cancelled);
  });
}

TEST_P(tls_test, ManyConnectionsAtOnce) {
  run([] {
    const int n = coir_test::scaled(100);
    coir::task_group group;
    for (int i = 0; i < n; ++i) {
      group.spawn([i] {
        auto [one, other] = connected();
        coir::task<void> echo = coir::spawn([&s = *other] {
          char part[16];
          asio::write(s, asio::buffer(part, s.read_some(asio::buffer(part))));
        });
        const std::string text = std::to_string(i);
        asio::write(*one, asio::buffer(text));
        std::string answer(text.size(), '\0');
        asio::read(*one, asio::buffer(answer));
        EXPECT_EQ(answer, text);
        echo.get();
      });
    }
    group.wait();
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, tls_test, coir_test::processors, coir_test::processors_name);

}  // namespace
