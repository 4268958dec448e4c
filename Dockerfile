# A server of hier in an image with nothing else: the example `server`. For a project of your own, replace the two names.
#
#   docker build -t hier-server . && docker run -p 8123:8123 hier-server
FROM rust:1-slim-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --locked --profile dist --package hier-examples --features server --example server

# glibc, certificates, a user that is not root; no shell.
FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /src/target/dist/examples/server /server
# Where `sqlite:…` may write.
WORKDIR /data
EXPOSE 8123
# Everybody who reaches the port is served: put it behind something that knows its users, or give the server `.auth(…)`.
ENTRYPOINT ["/server", "--addr", "0.0.0.0:8123", "--public"]
