# `outlast serve`: the HTTP API and the dashboard of a database. Workers are programs of yours and have images of their own.
#
#   docker build --tag outlast .
#   docker run --env OUTLAST_DATABASE=postgres://… --volume ./tokens:/etc/outlast/tokens:ro --publish 7700:7700 outlast
#
# ./scripts/image.sh does what the first stage does where there is no Docker, and runs the result as the second would.

FROM rust:1.95-slim-bookworm AS build
WORKDIR /src
COPY . .
# Another profile is quicker to build and slower to run: --build-arg PROFILE=dev.
ARG PROFILE=release
# Nobody debugs in this image, and without their tables the program is a third of the size.
ENV CARGO_PROFILE_RELEASE_STRIP=symbols
RUN cargo install --locked --path crates/outlast-cli --profile $PROFILE --root /out
RUN ./deploy/root-folder.sh /out/bin/outlast /root-folder

# Nothing is in it but the program and the files it reads: no shell, no package manager, nothing to keep up to date but this.
FROM scratch
COPY --from=build /root-folder /
# An account with a number and no name, since Kubernetes can only tell that a number is not root.
USER 65532:65532
EXPOSE 7700
# Without a file of tokens it refuses to listen where others can reach it: mount one here.
ENV OUTLAST_TOKENS=/etc/outlast/tokens
# SIGTERM stops it in order, which is what Docker sends.
ENTRYPOINT ["/outlast"]
CMD ["serve", "--address", "0.0.0.0"]
