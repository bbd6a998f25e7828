-- When a revocation's tombstone was last set: what a replay has to go by, since that may be long after the revocation.
ALTER TABLE "tokens" ADD COLUMN "settled_at" TIMESTAMPTZ(3);
UPDATE "tokens" SET "settled_at" = "revoked_at" WHERE "revoked_at" IS NOT NULL AND NOT "pending";

DROP INDEX "tokens_revoked_at_idx";
CREATE INDEX "tokens_settled_at_idx" ON "tokens"("settled_at") WHERE "settled_at" IS NOT NULL;
