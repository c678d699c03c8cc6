-- The responses in PostgreSQL as version 1.0.0 has created them: version 1 of this part of the schema.
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

CREATE FUNCTION SCHEMA.count_removed(of_owner bytea, of_root bytea, gone bigint, bytes bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE SCHEMA.conversations SET nodes = nodes - gone, size = size - bytes
        WHERE owner = of_owner AND root = of_root;
    UPDATE SCHEMA.owners SET size = size - bytes WHERE owner = of_owner;
    UPDATE SCHEMA.totals SET nodes = nodes - gone, size = size - bytes;
    DELETE FROM SCHEMA.conversations WHERE owner = of_owner AND root = of_root AND nodes = 0;
    DELETE FROM SCHEMA.owners WHERE owner = of_owner AND size = 0;
END $$;

CREATE FUNCTION SCHEMA.remove_conversation(of_owner bytea, of_root bytea) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE gone bigint; bytes bigint;
BEGIN
    SELECT nodes, size INTO gone, bytes FROM SCHEMA.conversations WHERE owner = of_owner AND root = of_root;
    DELETE FROM SCHEMA.responses WHERE owner = of_owner AND root = of_root;
    PERFORM SCHEMA.count_removed(of_owner, of_root, gone, bytes);
    RETURN gone;
END $$;

CREATE FUNCTION SCHEMA.make_room(
    of_owner bytea, most_nodes bigint, most_size bigint, most_owned bigint, at_once integer
) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE total SCHEMA.totals%ROWTYPE; oldest record;
BEGIN
    PERFORM FROM SCHEMA.totals FOR UPDATE;
    FOR turn IN 0..at_once LOOP
        SELECT * INTO total FROM SCHEMA.totals;
        IF coalesce((SELECT size FROM SCHEMA.owners WHERE owner = of_owner), 0) > most_owned THEN
            -- First within the owner's own limit, so that it takes no room of others.
            SELECT owner, root INTO oldest FROM SCHEMA.conversations WHERE owner = of_owner ORDER BY used LIMIT 1;
        ELSIF total.nodes > most_nodes OR total.size > most_size THEN
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

CREATE FUNCTION SCHEMA.put_response(
    at double precision, of_owner bytea, new_id bytea, of_parent bytea, new_created bigint, bytes bigint,
    new_data bytea, ttl double precision, most_nodes bigint, most_size bigint, most_owned bigint,
    most_depth bigint, most_tree bigint, at_once integer, OUT result text, OUT more boolean
)
LANGUAGE plpgsql AS $$
DECLARE
    moment double precision := coalesce(at, extract(epoch FROM clock_timestamp()));
    turn bigint; its_root bytea := new_id; its_depth bigint := 1; before_nodes bigint := 0; before_size bigint := 0;
BEGIN
    more := false;
    SELECT totals.used + 1 INTO turn FROM SCHEMA.totals FOR UPDATE;
    IF of_parent IS NOT NULL THEN
        SELECT r.root, r.depth + 1, c.nodes, c.size INTO its_root, its_depth, before_nodes, before_size
            FROM SCHEMA.responses r JOIN SCHEMA.conversations c USING (owner, root)
            WHERE r.owner = of_owner AND r.id = of_parent AND c.expires > moment;
        IF NOT FOUND THEN result := 'parent'; RETURN; END IF;
    END IF;
    IF its_depth > most_depth THEN result := 'depth'; RETURN; END IF;
    IF before_nodes >= most_tree THEN result := 'tree'; RETURN; END IF;
    IF bytes + before_size > least(most_size, most_owned) OR before_nodes >= most_nodes THEN
        result := 'large'; RETURN;
    END IF;
    INSERT INTO SCHEMA.responses (owner, id, root, parent, depth, created, size, number, data)
        VALUES (of_owner, new_id, its_root, of_parent, its_depth, new_created, bytes, turn, new_data)
        ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN result := 'exists'; RETURN; END IF;
    UPDATE SCHEMA.totals SET used = turn, nodes = totals.nodes + 1, size = totals.size + bytes;
    INSERT INTO SCHEMA.conversations AS c (owner, root, expires, used, nodes, size)
        VALUES (of_owner, its_root, moment + ttl, turn, 1, bytes)
        ON CONFLICT (owner, root) DO UPDATE SET expires = excluded.expires, used = excluded.used,
            nodes = c.nodes + 1, size = c.size + excluded.size;
    INSERT INTO SCHEMA.owners AS o (owner, size) VALUES (of_owner, bytes)
        ON CONFLICT (owner) DO UPDATE SET size = o.size + excluded.size;
    result := 'stored';
    more := SCHEMA.make_room(of_owner, most_nodes, most_size, most_owned, at_once);
END $$;

CREATE FUNCTION SCHEMA.delete_response(at double precision, of_owner bytea, of_id bytea) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    moment double precision := coalesce(at, extract(epoch FROM clock_timestamp()));
    its_root bytea; bytes bigint;
BEGIN
    PERFORM FROM SCHEMA.totals FOR UPDATE;
    SELECT r.root, r.size INTO its_root, bytes
        FROM SCHEMA.responses r JOIN SCHEMA.conversations c USING (owner, root)
        WHERE r.owner = of_owner AND r.id = of_id AND c.expires > moment;
    IF NOT FOUND THEN RETURN false; END IF;
    DELETE FROM SCHEMA.responses WHERE owner = of_owner AND id = of_id;
    PERFORM SCHEMA.count_removed(of_owner, its_root, 1, bytes);
    RETURN true;
END $$;

CREATE FUNCTION SCHEMA.expire_conversations(at double precision, at_once integer) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    moment double precision := coalesce(at, extract(epoch FROM clock_timestamp()));
    each record; gone bigint := 0;
BEGIN
    PERFORM FROM SCHEMA.totals FOR UPDATE;
    FOR each IN SELECT owner, root FROM SCHEMA.conversations WHERE expires <= moment LIMIT at_once LOOP
        gone := gone + SCHEMA.remove_conversation(each.owner, each.root);
    END LOOP;
    RETURN gone;
END $$;
