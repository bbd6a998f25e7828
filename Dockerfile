FROM node:24-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=optional --no-audit --no-fund
COPY tsconfig.json prisma.config.ts ./
COPY prisma prisma
COPY scripts/build.mjs scripts/
COPY src src
RUN npm run build

# Without peers as well: they are Prisma's CLI and TypeScript, which only a build needs.
FROM node:24-bookworm-slim AS dependencies
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev --omit=optional --omit=peer --no-audit --no-fund

FROM node:24-bookworm-slim
ENV NODE_ENV=production HOST=0.0.0.0 OPS_HOST=0.0.0.0
WORKDIR /app
COPY --from=dependencies /app/node_modules node_modules
COPY --from=build /app/dist/src dist/src
COPY prisma prisma
COPY package.json ./
USER node
EXPOSE 3000 9464
# Liveness never looks at PostgreSQL or Redis: a restart would heal neither.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.OPS_PORT || 9464}/health/live`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
CMD ["node", "dist/src/server.js"]
