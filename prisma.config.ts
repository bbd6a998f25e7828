import { defineConfig } from 'prisma/config';

// Read by `prisma generate` only. src/infra/postgres/migrate.ts applies the migrations.
export default defineConfig({ schema: 'prisma/schema.prisma' });
