-- CreateTable
CREATE TABLE "installation" (
    "name" TEXT COLLATE "C" NOT NULL,
    "value" TEXT COLLATE "C" NOT NULL,
    "at" TIMESTAMPTZ(3) NOT NULL DEFAULT now(),

    CONSTRAINT "installation_pkey" PRIMARY KEY ("name")
);
