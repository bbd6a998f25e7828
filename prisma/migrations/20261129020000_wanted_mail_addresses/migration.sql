SET LOCAL lock_timeout = '2s';

-- Nullable, or with a constant as default: no row is rewritten.
ALTER TABLE "wanted_mails"
    ADD COLUMN "tries" INTEGER NOT NULL DEFAULT 0,
    ADD COLUMN "is_known" BOOLEAN NOT NULL DEFAULT false,
    ADD COLUMN "event" TEXT COLLATE "C",
    ADD COLUMN "address" TEXT,
    ADD COLUMN "address_key" TEXT COLLATE "C";
