"""The Lua scripts of the Redis store, each of which runs as one atomic step.

All keys have the hash tag of KEYS[1], so that they are in one slot of a cluster:

    …:ids:OWNER    hash    the root of each response
    …:nodes:TREE   hash    of each response its depth, its time, its size, its number, and "-" or "+" with its parent
    …:data:TREE    hash    the bytes of each response
    …:expiry       zset    the conversations by the time at which they expire, in milliseconds
    …:used         zset    the conversations by the number of their last response
    …:owned:OWNER  zset    the same for one owner
    …:trees        hash    the bytes of each conversation
    …:owners       hash    the bytes of each owner
    …:written      string  nothing; it is written to find out if that works
    …:totals       hash    responses, bytes, and the number of the last response

TREE is the length of the owner, a colon, the owner, and the id of the root. Lua's numbers are doubles: all amounts stay
below 2^53, and are written with `%.0f` since Lua's own form has 14 digits.
"""

from __future__ import annotations

DATA_KEPT_MS = 3_600_000
"""Time after which Redis itself deletes the bytes of an expired conversation, if no gateway does so."""

_COMMON = """
local K, owner, id = KEYS[1], ARGV[2], ARGV[3]
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local function text(number) return string.format('%.0f', number) end
local function tree_of(owner, root) return #owner .. ':' .. owner .. root end
local function number(key, field) return tonumber(redis.call('HGET', key, field) or '0') end
local function live_tree(owner, id)
  local root = redis.call('HGET', K .. ':ids:' .. owner, id)
  if not root then return nil end
  local tree = tree_of(owner, root)
  local expires = redis.call('ZSCORE', K .. ':expiry', tree)
  if not expires or tonumber(expires) <= now then return nil end
  return tree, root
end
local function depth_of(node) return tonumber(string.match(node, '^%d+')) end
"""
_REMOVE = """
local function count_removed(tree, owner, nodes, size)
  redis.call('HINCRBY', K .. ':totals', 'nodes', text(-nodes))
  redis.call('HINCRBY', K .. ':totals', 'size', text(-size))
  redis.call('HINCRBY', K .. ':trees', tree, text(-size))
  if redis.call('HINCRBY', K .. ':owners', owner, text(-size)) <= 0 then
    redis.call('HDEL', K .. ':owners', owner)
  end
end
local function forget(tree, owner, root)
  redis.call('ZREM', K .. ':expiry', tree)
  redis.call('ZREM', K .. ':used', tree)
  redis.call('ZREM', K .. ':owned:' .. owner, root)
  redis.call('HDEL', K .. ':trees', tree)
end
local function remove_tree(tree)
  local length, rest = string.match(tree, '^(%d+):(.*)$')
  local owner, root = string.sub(rest, 1, tonumber(length)), string.sub(rest, tonumber(length) + 1)
  redis.call('UNLINK', K .. ':data:' .. tree)
  local found = redis.call('HKEYS', K .. ':nodes:' .. tree)
  for i = 1, #found, 1000 do
    redis.call('HDEL', K .. ':ids:' .. owner, unpack(found, i, math.min(i + 999, #found)))
  end
  redis.call('UNLINK', K .. ':nodes:' .. tree)
  count_removed(tree, owner, #found, number(K .. ':trees', tree))
  forget(tree, owner, root)
  return #found
end
local function make_room(owner, most_nodes, most_size, most_owned, at_once)
  for i = 0, at_once do
    local tree
    if number(K .. ':owners', owner) > most_owned then
      tree = tree_of(owner, redis.call('ZRANGE', K .. ':owned:' .. owner, 0, 0)[1])
    elseif number(K .. ':totals', 'nodes') > most_nodes or number(K .. ':totals', 'size') > most_size then
      tree = redis.call('ZRANGE', K .. ':used', 0, 0)[1]
    else
      return 0
    end
    if i == at_once then return 1 end
    remove_tree(tree)
  end
end
"""
"""Removing conversations. `make_room` removes up to `at_once`, and returns 1 if more must be removed."""

PUT = (
    _COMMON
    + _REMOVE
    + f"""
local parent, size, ttl = ARGV[4], tonumber(ARGV[6]), tonumber(ARGV[8])
local most_nodes, most_size, most_owned = tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11])
local tree, root, depth, nodes, before = tree_of(owner, id), id, 1, 0, 0
if parent ~= '-' then
  local previous = string.sub(parent, 2)
  tree, root = live_tree(owner, previous)
  if not tree then return {{'parent', 0}} end
  depth = depth_of(redis.call('HGET', K .. ':nodes:' .. tree, previous)) + 1
  nodes, before = redis.call('HLEN', K .. ':nodes:' .. tree), number(K .. ':trees', tree)
end
if depth > tonumber(ARGV[12]) then return {{'depth', 0}} end
if nodes >= tonumber(ARGV[14]) then return {{'tree', 0}} end
if size + before > math.min(most_size, most_owned) or nodes >= most_nodes then return {{'large', 0}} end
if redis.call('HSETNX', K .. ':ids:' .. owner, id, root) == 0 then return {{'exists', 0}} end
local used = redis.call('HINCRBY', K .. ':totals', 'used', 1)
local node = text(depth) .. ' ' .. ARGV[5] .. ' ' .. ARGV[6] .. ' ' .. text(used) .. ' ' .. parent
redis.call('HSET', K .. ':nodes:' .. tree, id, node)
redis.call('HSET', K .. ':data:' .. tree, id, ARGV[7])
redis.call('PEXPIRE', K .. ':data:' .. tree, text(ttl + {DATA_KEPT_MS}))
redis.call('ZADD', K .. ':expiry', text(now + ttl), tree)
redis.call('ZADD', K .. ':used', text(used), tree)
redis.call('ZADD', K .. ':owned:' .. owner, text(used), root)
redis.call('HINCRBY', K .. ':trees', tree, ARGV[6])
redis.call('HINCRBY', K .. ':owners', owner, ARGV[6])
redis.call('HINCRBY', K .. ':totals', 'nodes', 1)
redis.call('HINCRBY', K .. ':totals', 'size', ARGV[6])
return {{'stored', make_room(owner, most_nodes, most_size, most_owned, tonumber(ARGV[13]))}}
"""
)
"""ARGV: now, owner, id, "-" or "+" with the parent, time, size, bytes, milliseconds until it expires, most responses,
most bytes, most bytes of an owner, longest path, most conversations to remove, most responses of a conversation.
Returns the result, and 1 if more conversations must be removed. Nothing was written if the result is not `stored`.
"""

MAKE_ROOM = (
    _COMMON
    + _REMOVE
    + """
return make_room(owner, tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]))
"""
)
"""ARGV: now, owner, nothing, most responses, most bytes, most bytes of the owner, most conversations to remove."""

GET = (
    _COMMON
    + """
local tree = live_tree(owner, id)
local data = tree and redis.call('HGET', K .. ':data:' .. tree, id)
if not data then return {} end
return {redis.call('HGET', K .. ':nodes:' .. tree, id), data}
"""
)
"""ARGV: now, owner, id. Returns what is stored of a response, and its bytes; nothing if it is missing."""

PATH = (
    _COMMON
    + """
local tree, root = live_tree(owner, id)
if not tree then return {} end
local found, expected = {}, nil
while id do
  local node = redis.call('HGET', K .. ':nodes:' .. tree, id)
  if not node or (expected and depth_of(node) ~= expected) then return {} end
  found[#found + 1], found[#found + 2] = id, node
  expected, id = depth_of(node) - 1, string.match(node, '%+(.*)$')
end
return {root, found}
"""
)
"""ARGV: now, owner, id. Returns as `TREE` does, from this response to the root; nothing if one is missing.

The bytes are not read here: Lua would copy and hash them. An id that was deleted and used again has another depth.
"""

TREE = (
    _COMMON
    + """
local tree, root = live_tree(owner, id)
if not tree then return {} end
local most, found = tonumber(ARGV[4]), {}
local all = redis.call('HGETALL', K .. ':nodes:' .. tree)
for i = 1, #all, 2 do
  if depth_of(all[i + 1]) <= most then found[#found + 1], found[#found + 2] = all[i], all[i + 1] end
end
return {root, found}
"""
)
"""ARGV: now, owner, id, greatest depth. Returns the id of the root, and ids and what is stored of them in turn."""

DELETE = (
    _COMMON
    + _REMOVE
    + """
local tree, root = live_tree(owner, id)
if not tree then return 0 end
local size = string.match(redis.call('HGET', K .. ':nodes:' .. tree, id), '^%d+ %-?%d+ (%d+)')
redis.call('HDEL', K .. ':data:' .. tree, id)
redis.call('HDEL', K .. ':nodes:' .. tree, id)
redis.call('HDEL', K .. ':ids:' .. owner, id)
count_removed(tree, owner, 1, tonumber(size))
if redis.call('HLEN', K .. ':nodes:' .. tree) == 0 then forget(tree, owner, root) end
return 1
"""
)
"""ARGV: now, owner, id. Returns 1 if it was stored."""

EXPIRE = (
    _COMMON
    + _REMOVE
    + """
local removed = 0
for _, tree in ipairs(redis.call('ZRANGEBYSCORE', K .. ':expiry', '-inf', text(now), 'LIMIT', 0, tonumber(ARGV[4]))) do
  removed = removed + remove_tree(tree)
end
local tried = K .. ':tried'
redis.call('HINCRBY', tried, 'field', 1)
redis.call('HSETNX', tried, 'field', '')
redis.call('HSET', tried, 'field', '')
redis.call('HDEL', tried, 'field')
redis.call('ZADD', tried, 1, 'member')
redis.call('ZREM', tried, 'member')
redis.call('UNLINK', tried)
redis.call('SET', K .. ':written', '1', 'PX', 60000)
return removed
"""
)
"""ARGV: now, nothing, nothing, most conversations. Returns the number of their responses.

It always writes something, at its end, by each command that the others use: where only some of them work, the store
must not appear to answer. A Redis without room for more still removes what has expired.
"""
