SET LOCAL lock_timeout = '2s';

ALTER TABLE "_prisma_migrations" ALTER COLUMN "id" TYPE VARCHAR(36) COLLATE "C";
