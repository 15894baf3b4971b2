# PostgreSQL's official image with gkmeans in it, which every new database has.
#
#   docker build -t gkmeans .
#   docker run -d --name gkmeans -e POSTGRES_PASSWORD=secret --shm-size=1g -p 5432:5432 gkmeans
#   docker exec -it gkmeans psql -U postgres
#
# --build-arg PG_MAJOR=15 … 18 chooses the version.  It has the CPU engine alone.

ARG PG_MAJOR=17

FROM postgres:${PG_MAJOR}-bookworm AS build
ARG PG_MAJOR
RUN apt-get update && \
    apt-get install -y --no-install-recommends build-essential \
        "postgresql-server-dev-${PG_MAJOR}" && \
    rm -rf /var/lib/apt/lists/*
COPY . /gkmeans
RUN make -C /gkmeans -j"$(nproc)" PG_CONFIG=/usr/lib/postgresql/${PG_MAJOR}/bin/pg_config \
        WITH_CUDA=0 with_llvm=no DESTDIR=/installed install

FROM postgres:${PG_MAJOR}-bookworm
COPY --from=build /installed/ /
# also in template1, so that databases to come have it
RUN printf '%s\n' '\connect template1' 'CREATE EXTENSION IF NOT EXISTS gkmeans;' \
        > /docker-entrypoint-initdb.d/10-gkmeans-template.sql && \
    echo 'CREATE EXTENSION IF NOT EXISTS gkmeans;' > /docker-entrypoint-initdb.d/20-gkmeans.sql
