import { defineConfig } from 'prisma/config';

// Read by `prisma generate` only. Migrations run through src/infra/postgres/migrate.ts, which downloads nothing.
export default defineConfig({ schema: 'prisma/schema.prisma' });
