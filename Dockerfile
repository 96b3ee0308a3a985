# docker build --build-arg VERSION=v0.1.0 -t greyrelease:v0.1.0 .
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY hooks hooks
COPY server server
ARG VERSION=dev
ARG REVISION=unknown
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=${VERSION} -X main.revision=${REVISION}" -o /greyrelease ./server

# Static, without a shell, as a user who is not root. The service opens no file and
# calls nobody, so there are no certificates and no zone data.
FROM scratch
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="GreyRelease" \
      org.opencontainers.image.description="The sync hook of GreyRelease, for Metacontroller" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /greyrelease /greyrelease
USER 65532:65532
EXPOSE 8080 9090
ENTRYPOINT ["/greyrelease"]
