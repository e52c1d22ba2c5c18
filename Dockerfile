# The agent's image: Node, dist/ and licences on a base that has glibc and libstdc++. docs/installing.md says how it is run.
# Both bases are named by digest, since a tag can change its content: docs/installing.md shows how to choose newer ones. The first one
# has Node as nodejs.org ships it, npm and apt; its Node goes into the image, since V8 accepts bytecode only from the same build
# (docs/adr/0012).
ARG BUILD_IMAGE=node:24.18.0-bookworm-slim@sha256:6f7b03f7c2c8e2e784dcf9295400527b9b1270fd37b7e9a7285cf83b6951452d
ARG RUNTIME_IMAGE=debian:bookworm-slim@sha256:96e378d7e6531ac9a15ad505478fcc2e69f371b10f5cdf87857c4b8188404716

FROM ${BUILD_IMAGE} AS build
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
RUN npm run build:agent && node scripts/image-files.mjs /image

FROM ${RUNTIME_IMAGE}
COPY --from=build /image /
# The heap's limits, for whoever runs this image to change. 10,000 Services with 10 endpoints each run, slowly, with 96 MiB of old
# space; a heap of five times that is a fault, and the node's other programs need the memory. A young generation whose size is
# given, 2 MiB or 8, takes 100 MiB off the peak of such a start (330), and no CPU.
ENV NODE_OPTIONS="--max-old-space-size=512 --max-semi-space-size=8"
LABEL org.opencontainers.image.title="Viaduct" \
      org.opencontainers.image.description="A drop-in kube-proxy for bare metal" \
      org.opencontainers.image.licenses="Apache-2.0"
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/node", "/opt/viaduct/agent.js"]
