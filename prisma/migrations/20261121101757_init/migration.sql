-- CreateEnum
CREATE TYPE "token_type" AS ENUM ('session', 'llt');

-- CreateTable
CREATE TABLE "users" (
    "id" BIGSERIAL NOT NULL,
    "username" TEXT NOT NULL,
    "email" TEXT NOT NULL,
    "name" TEXT NOT NULL,
    "password_hash" BYTEA NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "disabled_at" TIMESTAMPTZ(3),

    CONSTRAINT "users_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "tokens" (
    "id" BIGSERIAL NOT NULL,
    "user_id" BIGINT NOT NULL,
    "type" "token_type" NOT NULL,
    "name" TEXT NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL,
    "last_used_at" TIMESTAMPTZ(3),
    "revoked_at" TIMESTAMPTZ(3),
    "pending" BOOLEAN NOT NULL DEFAULT false,
    "latest" BIGINT NOT NULL DEFAULT 0,
    "parent" BIGINT NOT NULL DEFAULT 0,
    "first" BIGINT NOT NULL DEFAULT 0,
    "confirmed" BOOLEAN NOT NULL DEFAULT false,
    "client" TEXT NOT NULL DEFAULT '',

    CONSTRAINT "tokens_pkey" PRIMARY KEY ("id")
);

-- CreateIndex
CREATE UNIQUE INDEX "users_username_key" ON "users"("username");

-- CreateIndex
CREATE UNIQUE INDEX "users_email_key" ON "users"("email");

-- CreateIndex
CREATE INDEX "tokens_user_id_type_revoked_at_idx" ON "tokens"("user_id", "type", "revoked_at");

-- CreateIndex: the outbox; partial, so that it is as small as the outbox is
CREATE INDEX "tokens_pending_idx" ON "tokens"("id") WHERE "pending";

-- CreateIndex: the last revocations, for their replay
CREATE INDEX "tokens_revoked_at_idx" ON "tokens"("revoked_at") WHERE "revoked_at" IS NOT NULL;

-- AddForeignKey
ALTER TABLE "tokens" ADD CONSTRAINT "tokens_user_id_fkey" FOREIGN KEY ("user_id") REFERENCES "users"("id") ON DELETE CASCADE ON UPDATE CASCADE;
