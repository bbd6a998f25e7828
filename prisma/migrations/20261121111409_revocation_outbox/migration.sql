-- AlterTable
ALTER TABLE "tokens" ADD COLUMN     "pending" BOOLEAN NOT NULL DEFAULT false;

-- CreateIndex: the outbox; partial, so that it is as small as the outbox is
CREATE INDEX "tokens_pending_idx" ON "tokens"("id") WHERE "pending";

-- CreateIndex: the last revocations, for their replay
CREATE INDEX "tokens_revoked_at_idx" ON "tokens"("revoked_at") WHERE "revoked_at" IS NOT NULL;
