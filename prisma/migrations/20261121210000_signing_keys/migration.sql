-- What the replicas know together of the keys in their folders, and which of them signed a long-lived token.
SET LOCAL lock_timeout = '2s';

CREATE TABLE "signing_keys" (
    "kid" TEXT NOT NULL,
    "first_seen_at" TIMESTAMPTZ(6),
    "published_at" TIMESTAMPTZ(6),
    "signs_since" TIMESTAMPTZ(6),
    "signed_at" TIMESTAMPTZ(6),

    CONSTRAINT "signing_keys_pkey" PRIMARY KEY ("kid")
);

ALTER TABLE "tokens" ADD COLUMN "kid" TEXT;
