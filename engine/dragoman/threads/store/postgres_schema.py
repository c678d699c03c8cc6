"""The tables and functions of the responses in PostgreSQL.

Names are bytes, as clients choose them and PostgreSQL's texts hold no zero; `convert_from(id, 'UTF8')` shows one.

Responses are added at the same time: the sizes of all, and those of each owner, are kept in parts, and additions to
conversations of different parts wait for nothing. All additions lock in the same order: the conversation, the owner's
part, the part of all. While responses are removed, none are added. So no two calls wait for each other.
What is not committed is not seen by others: additions at the same time may exceed a limit until the next one.
"""

from __future__ import annotations

from typing import Final

from dragoman.threads.store.postgres_connection import SchemaPart

_TABLES: Final = """
    CREATE TABLE SCHEMA.responses (
        owner bytea NOT NULL, id bytea NOT NULL, root bytea NOT NULL, parent bytea, depth bigint NOT NULL,
        created bigint NOT NULL, size bigint NOT NULL, number bigint NOT NULL, data bytea NOT NULL,
        PRIMARY KEY (owner, id)
    );
    CREATE INDEX responses_by_root ON SCHEMA.responses (owner, root);
    CREATE TABLE SCHEMA.conversations (
        owner bytea NOT NULL, root bytea NOT NULL, expires double precision NOT NULL, used bigint NOT NULL,
        nodes bigint NOT NULL, size bigint NOT NULL, PRIMARY KEY (owner, root)
    );
    CREATE INDEX conversations_by_use ON SCHEMA.conversations (used);
    CREATE INDEX conversations_by_owner ON SCHEMA.conversations (owner, used);
    CREATE INDEX conversations_by_expiry ON SCHEMA.conversations (expires);
    CREATE TABLE SCHEMA.owners (owner bytea PRIMARY KEY, size bigint NOT NULL);
    CREATE TABLE SCHEMA.totals (nodes bigint NOT NULL, size bigint NOT NULL, used bigint NOT NULL);
    INSERT INTO SCHEMA.totals VALUES (0, 0, 0);
"""
"""`number` and `used` count the additions of responses: the conversation with the smallest is removed first."""
_REMOVE: Final = """
    CREATE FUNCTION SCHEMA.remove_conversation(of_owner bytea, of_root bytea) RETURNS bigint
    LANGUAGE plpgsql AS $$
    DECLARE gone bigint; bytes bigint;
    BEGIN
        SELECT nodes, size INTO gone, bytes FROM SCHEMA.conversations WHERE owner = of_owner AND root = of_root;
        DELETE FROM SCHEMA.responses WHERE owner = of_owner AND root = of_root;
        PERFORM SCHEMA.count_removed(of_owner, of_root, gone, bytes);
        RETURN gone;
    END $$;
"""
_PARTS: Final = """
    ALTER TABLE SCHEMA.owners ADD part integer NOT NULL DEFAULT 0;
    ALTER TABLE SCHEMA.owners DROP CONSTRAINT owners_pkey;
    ALTER TABLE SCHEMA.owners ADD PRIMARY KEY (owner, part);
    ALTER TABLE SCHEMA.totals ADD part integer NOT NULL DEFAULT 0;
    ALTER TABLE SCHEMA.totals ADD PRIMARY KEY (part);
    ALTER TABLE SCHEMA.totals DROP used;
    INSERT INTO SCHEMA.totals (part, nodes, size) SELECT part, 0, 0 FROM generate_series(1, 15) AS part;
    CREATE FUNCTION SCHEMA.part_of(of_root bytea) RETURNS integer IMMUTABLE
    LANGUAGE sql AS $$ SELECT hashtext(encode(of_root, 'hex')) & 15 $$;
    CREATE FUNCTION SCHEMA.lock_key() RETURNS bigint
    LANGUAGE sql AS $$ SELECT (1685217639::bigint << 32) | tableoid::bigint FROM SCHEMA.totals WHERE part = 0 $$;
    CREATE FUNCTION SCHEMA.run_alone() RETURNS void
    LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(SCHEMA.lock_key()); END $$;
    CREATE FUNCTION SCHEMA.exceeds(
        of_owner bytea, most_nodes bigint, most_size bigint, most_owned bigint, OUT own boolean, OUT whole boolean
    )
    LANGUAGE sql AS $$
        SELECT (SELECT coalesce(sum(size), 0) FROM SCHEMA.owners WHERE owner = of_owner) > most_owned,
            (SELECT sum(nodes) > most_nodes OR sum(size) > most_size FROM SCHEMA.totals)
    $$;
"""
"""`used` and `number` are microseconds from here on: above all counts before. A part may be below 0, as a later
PostgreSQL may have another `hashtext`; only sums count."""
_COUNT_REMOVED: Final = """
    CREATE OR REPLACE FUNCTION SCHEMA.count_removed(of_owner bytea, of_root bytea, gone bigint, bytes bigint)
    RETURNS void
    LANGUAGE plpgsql AS $$
    BEGIN
        UPDATE SCHEMA.conversations SET nodes = nodes - gone, size = size - bytes
            WHERE owner = of_owner AND root = of_root;
        INSERT INTO SCHEMA.owners AS o (owner, part, size) VALUES (of_owner, SCHEMA.part_of(of_root), -bytes)
            ON CONFLICT (owner, part) DO UPDATE SET size = o.size + excluded.size;
        UPDATE SCHEMA.totals SET nodes = nodes - gone, size = size - bytes WHERE part = SCHEMA.part_of(of_root);
        DELETE FROM SCHEMA.conversations WHERE owner = of_owner AND root = of_root AND nodes = 0;
        DELETE FROM SCHEMA.owners WHERE owner = of_owner
            AND NOT EXISTS (SELECT FROM SCHEMA.conversations WHERE owner = of_owner);
    END $$;
"""
_MAKE_ROOM: Final = """
    CREATE OR REPLACE FUNCTION SCHEMA.make_room(
        of_owner bytea, most_nodes bigint, most_size bigint, most_owned bigint, at_once integer
    ) RETURNS boolean
    LANGUAGE plpgsql AS $$
    DECLARE above record; oldest record;
    BEGIN
        PERFORM SCHEMA.run_alone();
        FOR turn IN 0..at_once LOOP
            SELECT * INTO above FROM SCHEMA.exceeds(of_owner, most_nodes, most_size, most_owned);
            IF above.own THEN
                -- First within the owner's own limit, so that it takes no room of others.
                SELECT owner, root INTO oldest FROM SCHEMA.conversations WHERE owner = of_owner ORDER BY used LIMIT 1;
            ELSIF above.whole THEN
                SELECT owner, root INTO oldest FROM SCHEMA.conversations ORDER BY used LIMIT 1;
            ELSE
                RETURN false;
            END IF;
            IF turn < at_once THEN
                PERFORM SCHEMA.remove_conversation(oldest.owner, oldest.root);
            END IF;
        END LOOP;
        RETURN true;
    END $$;
"""
"""Removes up to `at_once` conversations. Returns true if more must be removed."""
_PUT: Final = """
    CREATE OR REPLACE FUNCTION SCHEMA.put_response(
        at double precision, of_owner bytea, new_id bytea, of_parent bytea, new_created bigint, bytes bigint,
        new_data bytea, ttl double precision, most_nodes bigint, most_size bigint, most_owned bigint,
        most_depth bigint, most_tree bigint, at_once integer, OUT result text, OUT more boolean
    )
    LANGUAGE plpgsql AS $$
    DECLARE
        moment double precision := coalesce(at, extract(epoch FROM clock_timestamp()));
        turn bigint; its_root bytea := new_id; its_depth bigint := 1; before_nodes bigint := 0; before_size bigint := 0;
        before_turn bigint := 0;
    BEGIN
        more := false;
        PERFORM pg_advisory_xact_lock_shared(SCHEMA.lock_key());
        IF of_parent IS NOT NULL THEN
            SELECT r.root, r.depth + 1, c.nodes, c.size, c.used
                INTO its_root, its_depth, before_nodes, before_size, before_turn
                FROM SCHEMA.responses r JOIN SCHEMA.conversations c USING (owner, root)
                WHERE r.owner = of_owner AND r.id = of_parent AND c.expires > moment FOR UPDATE OF c;
            IF NOT FOUND THEN result := 'parent'; RETURN; END IF;
        END IF;
        IF its_depth > most_depth THEN result := 'depth'; RETURN; END IF;
        IF before_nodes >= most_tree THEN result := 'tree'; RETURN; END IF;
        IF bytes + before_size > least(most_size, most_owned) OR before_nodes >= most_nodes THEN
            result := 'large'; RETURN;
        END IF;
        turn := greatest((extract(epoch FROM clock_timestamp()) * 1000000)::bigint, before_turn + 1);
        INSERT INTO SCHEMA.responses (owner, id, root, parent, depth, created, size, number, data)
            VALUES (of_owner, new_id, its_root, of_parent, its_depth, new_created, bytes, turn, new_data)
            ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN result := 'exists'; RETURN; END IF;
        INSERT INTO SCHEMA.conversations AS c (owner, root, expires, used, nodes, size)
            VALUES (of_owner, its_root, moment + ttl, turn, 1, bytes)
            ON CONFLICT (owner, root) DO UPDATE SET expires = excluded.expires, used = excluded.used,
                nodes = c.nodes + 1, size = c.size + excluded.size;
        INSERT INTO SCHEMA.owners AS o (owner, part, size) VALUES (of_owner, SCHEMA.part_of(its_root), bytes)
            ON CONFLICT (owner, part) DO UPDATE SET size = o.size + excluded.size;
        UPDATE SCHEMA.totals SET nodes = totals.nodes + 1, size = totals.size + bytes
            WHERE part = SCHEMA.part_of(its_root);
        result := 'stored';
        SELECT own OR whole INTO more FROM SCHEMA.exceeds(of_owner, most_nodes, most_size, most_owned);
    END $$;
"""
"""Returns a result, and whether more must be removed. Nothing was written if the result is not `stored`.

`make_room` follows in a call of its own if there is `more`: it runs alone.
"""
_DELETE: Final = """
    CREATE OR REPLACE FUNCTION SCHEMA.delete_response(at double precision, of_owner bytea, of_id bytea) RETURNS boolean
    LANGUAGE plpgsql AS $$
    DECLARE
        moment double precision := coalesce(at, extract(epoch FROM clock_timestamp()));
        its_root bytea; bytes bigint;
    BEGIN
        PERFORM SCHEMA.run_alone();
        SELECT r.root, r.size INTO its_root, bytes
            FROM SCHEMA.responses r JOIN SCHEMA.conversations c USING (owner, root)
            WHERE r.owner = of_owner AND r.id = of_id AND c.expires > moment;
        IF NOT FOUND THEN RETURN false; END IF;
        DELETE FROM SCHEMA.responses WHERE owner = of_owner AND id = of_id;
        PERFORM SCHEMA.count_removed(of_owner, its_root, 1, bytes);
        RETURN true;
    END $$;
"""
_EXPIRE: Final = """
    CREATE OR REPLACE FUNCTION SCHEMA.expire_conversations(at double precision, at_once integer) RETURNS bigint
    LANGUAGE plpgsql AS $$
    DECLARE
        moment double precision := coalesce(at, extract(epoch FROM clock_timestamp()));
        each record; gone bigint := 0;
    BEGIN
        PERFORM SCHEMA.run_alone();
        FOR each IN SELECT owner, root FROM SCHEMA.conversations WHERE expires <= moment LIMIT at_once LOOP
            gone := gone + SCHEMA.remove_conversation(each.owner, each.root);
        END LOOP;
        RETURN gone;
    END $$;
"""
RESPONSES: Final = SchemaPart(
    "responses",
    (_TABLES + _REMOVE, "".join((_PARTS, _COUNT_REMOVED, _MAKE_ROOM, _PUT, _DELETE, _EXPIRE))),
)
"""A conversation is removed as a whole, so its responses refer to it by the id of their root.

The functions that version 2 replaces are not made for version 1 first: only the second script is complete.
"""

PUT: Final = "SELECT * FROM SCHEMA.put_response($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)"
MAKE_ROOM: Final = "SELECT SCHEMA.make_room($1, $2, $3, $4, $5)"
DELETE: Final = "SELECT SCHEMA.delete_response($1, $2, $3)"
EXPIRE: Final = "SELECT SCHEMA.expire_conversations($1, $2)"
WRITE: Final = "UPDATE SCHEMA.totals SET size = size WHERE part = 0"
"""Changes nothing; it fails where nothing can be written."""
_LIVE: Final = """
    FROM SCHEMA.responses r JOIN SCHEMA.conversations c USING (owner, root)
    WHERE r.owner = $2 AND r.id = $3
        AND c.expires > coalesce($1::double precision, extract(epoch FROM clock_timestamp()))
"""
GET: Final = f"SELECT r.parent, r.created, r.data {_LIVE}"
# An id that was deleted and used again has another depth. With LIMIT each step is one look-up in the index: without it
# PostgreSQL may join the whole table, of which it has no statistics at first.
PATH: Final = f"""
    WITH RECURSIVE up AS (
        SELECT r.id, r.root, r.parent, r.created, r.size, r.depth {_LIVE}
        UNION ALL
        SELECT before.* FROM up CROSS JOIN LATERAL (
            SELECT r.id, r.root, r.parent, r.created, r.size, r.depth FROM SCHEMA.responses r
            WHERE r.owner = $2 AND r.id = up.parent AND r.depth = up.depth - 1 LIMIT 1
        ) AS before
    )
    SELECT id, root, parent, created, size FROM up ORDER BY depth
"""
TREE: Final = f"""
    SELECT id, root, parent, created, size FROM SCHEMA.responses
    WHERE owner = $2 AND root = (SELECT r.root {_LIVE}) AND depth <= $4 ORDER BY number
"""
NODES: Final = "SELECT id, data FROM SCHEMA.responses WHERE owner = $1 AND id = ANY($2::bytea[])"
