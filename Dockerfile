# `outlast serve`: the HTTP API and the dashboard for a database. Workers have their own images.
#
#   docker build --tag outlast .
#   docker run --env OUTLAST_DATABASE=postgres://… --volume ./tokens:/etc/outlast/tokens:ro --publish 7700:7700 outlast
#
# ./scripts/image.sh runs the first stage without Docker and starts the result as the second would.

FROM rust:1.95-slim-bookworm AS build
WORKDIR /src
COPY . .
# For a faster build of a slower program: --build-arg PROFILE=dev.
ARG PROFILE=release
# Without debug tables the program is a third of the size.
ENV CARGO_PROFILE_RELEASE_STRIP=symbols
RUN cargo install --locked --path crates/outlast-cli --profile $PROFILE --root /out
RUN ./deploy/root-folder.sh /out/bin/outlast /root-folder

# Contains only the program and the files it reads: no shell and no package manager to update.
FROM scratch
COPY --from=build /root-folder /
# A numeric user, because Kubernetes can check only a number for being non-root.
USER 65532:65532
EXPOSE 7700
# Mount a token file here. Without one, the server refuses to listen on public addresses.
ENV OUTLAST_TOKENS=/etc/outlast/tokens
# SIGTERM, which Docker sends, stops the server cleanly.
ENTRYPOINT ["/outlast"]
CMD ["serve", "--address", "0.0.0.0"]
