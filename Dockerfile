# The agent's image: Node, dist/ and licences on a base with glibc and libstdc++. docs/installing.md describes how to run it.
# Digests name both bases, since the content of a tag can change. docs/installing.md describes how to choose newer ones. The build base
# has npm, apt and Node as nodejs.org ships it. Its Node, for the image's platform, goes into the image, since V8 accepts bytecode only
# from the same build (docs/adr/0012).
ARG BUILD_IMAGE=node:24.18.0-bookworm-slim@sha256:6f7b03f7c2c8e2e784dcf9295400527b9b1270fd37b7e9a7285cf83b6951452d
ARG NODE_IMAGE=${BUILD_IMAGE}
ARG RUNTIME_IMAGE=debian:bookworm-slim@sha256:96e378d7e6531ac9a15ad505478fcc2e69f371b10f5cdf87857c4b8188404716

# Commands run on the machine's own processor, also for an image of another platform.
FROM --platform=$BUILDPLATFORM ${BUILD_IMAGE} AS build
RUN apt-get update && apt-get install -y --no-install-recommends g++ make cmake ninja-build
WORKDIR /src
COPY package.json package-lock.json .npmrc ./
RUN npm ci --no-audit --no-fund
COPY CMakeLists.txt ./
COPY native native
RUN npm run build:native
COPY LICENSE tsconfig.json ./
COPY scripts scripts
COPY src src
# The build has no .git. VIADUCT_COMMIT=$(git rev-parse HEAD) tells it the commit. Only the steps from here on depend on it.
ARG VIADUCT_COMMIT=unknown
RUN npm run build:agent && node scripts/image-files.mjs /image
# For another processor: its addon, and no bytecode, since this Node cannot make it.
ARG TARGETARCH
RUN if [ "$TARGETARCH" != "$(dpkg --print-architecture)" ]; then \
      apt-get install -y --no-install-recommends g++-aarch64-linux-gnu && \
      node scripts/cross.mjs "$TARGETARCH" && \
      cp "out/cross/$TARGETARCH/viaduct.node" /image/opt/viaduct/ && \
      rm /image/opt/viaduct/bundle.bytecode; \
    fi

# For buildah 1.28: it keeps the platform of an earlier stage, and fails at a stage without an instruction.
FROM --platform=$TARGETPLATFORM ${NODE_IMAGE} AS node
WORKDIR /usr/local

FROM --platform=$TARGETPLATFORM ${RUNTIME_IMAGE}
COPY --from=build /image /
COPY --from=node /usr/local/bin/node /usr/local/bin/node
COPY --from=node /usr/local/LICENSE /usr/share/doc/viaduct/LICENSE-node
# Limits of V8's heap. The operator can override them. 10,000 Services with 10 endpoints each run slowly with 96 MiB of old space. A
# heap of five times that size is a fault, and other programs on the node need the memory. A fixed size of the young generation (2 or
# 8 MiB) lowers the peak of such a start by 100 MiB (from 330) and costs no CPU time.
ENV NODE_OPTIONS="--max-old-space-size=512 --max-semi-space-size=8"
ARG VIADUCT_COMMIT=unknown
LABEL org.opencontainers.image.title="Viaduct" \
      org.opencontainers.image.description="A drop-in kube-proxy for bare metal" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.revision="${VIADUCT_COMMIT}"
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/node", "/opt/viaduct/agent.js"]
