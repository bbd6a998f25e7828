-- What the replicas agree on, and what they have let go (docs/adr/0025-what-replicas-agree-on.md).
CREATE TABLE "installation" (
    "name" TEXT COLLATE "C" NOT NULL,
    "value" TEXT COLLATE "C" NOT NULL,
    "at" TIMESTAMPTZ(6) NOT NULL,

    CONSTRAINT "installation_pkey" PRIMARY KEY ("name")
);
