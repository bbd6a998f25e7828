# The digest is that of the index of all platforms (CONTRIBUTING.md, "Images").
ARG NODE_IMAGE=docker.io/library/node:24.21.0-bookworm-slim@sha256:0e0ff40c39bc087845bfb27465a0df4ea419520094bc35842ff83dd8cbe6f9b6

FROM ${NODE_IMAGE} AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
COPY packages/agent/package.json packages/agent/
COPY packages/client/package.json packages/client/
COPY packages/load/package.json packages/load/
COPY packages/verifier/package.json packages/verifier/
COPY test/typed-client/package.json test/typed-client/
COPY examples/spa/package.json examples/spa/
COPY lab/package.json lab/
RUN --mount=type=cache,target=/root/.npm npm ci --no-audit --no-fund
COPY tsconfig.json tsconfig.service.json prisma.config.ts ./
COPY prisma prisma
COPY scripts/build.mjs scripts/
COPY packages packages
COPY src src
# The build context has no repository.
ARG REVISION=unknown
# The agent loads ES modules, and none for tests.
RUN node scripts/build.mjs --service --packages && rm -r packages/*/dist/cjs packages/*/dist/testing \
  && find dist packages/*/dist \( -name '*.map' -o -name '*.d.ts' \) -delete

# Without peers as well: they are Prisma's CLI and TypeScript, which only a build needs. Without what our own packages
# need: the image has only the agent. Then without types, source maps, and every query compiler of Prisma's but ours:
# two thirds of what is left.
FROM ${NODE_IMAGE} AS dependencies
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN --mount=type=cache,target=/root/.npm \
  npm ci --omit=dev --omit=optional --omit=peer --workspaces=false --no-audit --no-fund
RUN rm -r node_modules/@fastify/swagger/examples node_modules/@fastify/swagger/test \
  node_modules/@fastify/swagger-ui/examples node_modules/@fastify/swagger-ui/static/swagger-ui.js \
  node_modules/@fastify/static/example node_modules/@fastify/static/test \
  && find node_modules -type f \( -name '*.ts' -o -name '*.mts' -o -name '*.cts' -o -name '*.map' \
  -o -name 'query_compiler_*' ! -name 'query_compiler_small_bg.postgresql.*' \) -delete

# The final image: Node, the libraries that it is linked with, /etc/passwd, and Debian's licences and package records
# of these libraries, which vulnerability scanners read in status.d.
FROM ${NODE_IMAGE} AS runtime
WORKDIR /runtime
RUN cp --parents --dereference "$(command -v node)" $(ldd "$(command -v node)" | grep -o '/[^ ]*') . \
  && mkdir -p /data etc var/lib/dpkg/status.d \
  && echo 'node:x:1000:1000::/nonexistent:/nonexistent' > etc/passwd \
  && echo 'node:x:1000:' > etc/group \
  && echo 'hosts: files dns' > etc/nsswitch.conf \
  && for package in libc6 libgcc-s1 libstdc++6; do \
    dpkg-query --status "$package" > "var/lib/dpkg/status.d/$package" \
    && cp --parents --dereference "/usr/share/doc/$package/copyright" . || exit 1; \
  done

FROM scratch
COPY --from=runtime /runtime /
WORKDIR /app
# Where embedded defaults (keys, outside of production) go; a volume that is mounted here takes its owner over.
COPY --from=runtime --chown=1000:1000 /data .data
COPY --from=dependencies /app/node_modules node_modules
COPY --from=build /app/dist/src dist/src
# The agent, which runs beside another service, and what it imports.
COPY --from=build /app/packages/agent/dist dist/agent
COPY --from=build /app/packages/verifier/package.json node_modules/@latchkey/verifier/
COPY --from=build /app/packages/verifier/dist node_modules/@latchkey/verifier/dist
COPY prisma prisma
# The last, which a release has (npm run release), lists what is in the image.
COPY LICENSE package.json sbom.cdx.jso[n] ./
ENV PATH=/usr/local/bin NODE_ENV=production HOST=0.0.0.0 OPS_HOST=0.0.0.0
# As numbers, so that Kubernetes can tell that it is not root.
USER 1000:1000
EXPOSE 3000 9464
STOPSIGNAL SIGTERM
# Liveness never looks at PostgreSQL or Redis: a restart would heal neither.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.OPS_PORT || 9464}/health/live`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
# By the memory of its container, V8 would give young objects a tenth of this and collect them as often (docs/adr/0017).
CMD ["node", "--max-semi-space-size=32", "dist/src/server.js"]

ARG NODE_IMAGE
ARG VERSION=1.0.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Latchkey" \
  org.opencontainers.image.description="Authentication and token microservice: accounts, login, logout, refresh, long-lived tokens." \
  org.opencontainers.image.licenses="Apache-2.0" \
  org.opencontainers.image.version="${VERSION}" \
  org.opencontainers.image.revision="${REVISION}" \
  org.opencontainers.image.base.name="${NODE_IMAGE}"
