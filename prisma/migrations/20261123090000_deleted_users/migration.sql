SET LOCAL lock_timeout = '2s';

-- A deleted account keeps its row, without names and hash, until its last token row is purged. It counts as disabled, so
-- that replicas of an earlier release refuse it too.
ALTER TABLE "users" ADD COLUMN "deleted_at" TIMESTAMPTZ(3);
-- Until a replica has told Redis of the last change. Commands wait for that.
ALTER TABLE "users" ADD COLUMN "pending" BOOLEAN NOT NULL DEFAULT false;

-- Keyed hashes of the names of deleted accounts, which no other account gets for a while.
CREATE TABLE "reserved_names" (
    "name_hash" TEXT NOT NULL,
    "until" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "reserved_names_pkey" PRIMARY KEY ("name_hash")
);
