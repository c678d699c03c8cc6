"""The Lua scripts of shared routing in Redis: `law.py` as Redis runs it, each script in one atomic step.

A property test compares both. Times are those of Redis; tests pass their own. The keys of an exchange have the same
hash tag, so that a cluster can run it; those of issuers have a hash tag for each client.
"""

from __future__ import annotations

from dragoman_server.proxy.shared_routing.interface import (
    ISSUER_SECONDS,
    ISSUERS_MAX,
    LEASE,
    RUN_SECONDS,
    RUNS_MAX,
    TAKEN_SECONDS,
)
from dragoman_server.proxy.shared_routing.law import WINDOW

_COMMON = f"""
local LEASE_MS, WINDOW, ISSUER_MS, ISSUERS_MAX = {LEASE * 1000:.0f}, {WINDOW}, {ISSUER_SECONDS * 1000}, {ISSUERS_MAX}
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local function text(number) return string.format('%.0f', number) end
"""

EXCHANGE = (
    _COMMON
    + """
local process = ARGV[2]
local processes, counts, last = KEYS[1] .. ':processes', KEYS[1] .. ':retries', KEYS[1] .. ':turn'

local function divide(places, needs)
  local found, left = {}, {}
  for at = 1, #needs do found[at], left[at] = 0, at end
  table.sort(left, function(a, b)
    if needs[a].need ~= needs[b].need then return needs[a].need < needs[b].need end
    return a < b
  end)
  while #left > 0 and needs[left[1]].need <= math.floor(places / #left) do
    local at = table.remove(left, 1)
    found[at] = needs[at].need
    places = places - found[at]
  end
  if #left > 0 then
    local each = math.floor(places / #left)
    local more = places - each * #left
    table.sort(left, function(a, b) return needs[a].turn < needs[b].turn end)
    for rank, at in ipairs(left) do found[at] = each + (rank <= more and 1 or 0) end
  end
  return found[#needs]
end

local function claim(key, limit, queue, taken, waiting, has_begun)
  local found, own, needs, waits, held_by_others = redis.call('HGETALL', key), nil, {}, {}, 0
  for at = 1, #found, 2 do
    local till, held, need, turn = string.match(found[at + 1], '(%d+) (%d+) (%d+) (%d+)')
    held, need, turn = tonumber(held), tonumber(need), tonumber(turn)
    if tonumber(till) <= now then
      redis.call('HDEL', key, found[at])
    elseif found[at] == process then
      own = {held = held, turn = turn}
    else
      held_by_others = held_by_others + held
      needs[#needs + 1] = {turn = turn, need = need}
      waits[#waits + 1] = {turn = turn, need = need - held}
    end
  end
  local need, turn = taken + waiting, tonumber(redis.call('GET', last) or 0) + 1
  local turn_now = own and not has_begun and own.turn or turn
  local function keep(held, need)
    if turn_now == turn then redis.call('SET', last, text(turn)) end
    redis.call('HSET', key, process, table.concat({text(now + LEASE_MS), text(held), text(need), text(turn_now)}, ' '))
    redis.call('PEXPIRE', key, text(2 * LEASE_MS))
  end
  if need == 0 then
    if own then keep(0, 0) end
    return {0, 0, math.max(0, limit - held_by_others)}
  end
  needs[#needs + 1] = {turn = turn_now, need = need}
  local places = math.min(divide(limit, needs), math.max(0, limit - held_by_others))
  local held = math.max(taken, places)
  waits[#waits + 1] = {turn = turn_now, need = need - held}
  local queued = divide(queue, waits)
  if own and places > own.held then turn_now = turn end
  keep(held, math.min(need, held + queued))
  return {places, queued, math.max(0, limit - held_by_others - held)}
end

local function count_retries(requests, made, wanted, share, least)
  if requests + made + wanted == 0 then return 0 end
  local second, all_requests, all_retries = math.floor(now / 1000), requests, made
  local found = redis.call('HGETALL', counts)
  for at = 1, #found, 2 do
    local when = tonumber(found[at])
    if when <= second - WINDOW or when > second + WINDOW then
      redis.call('HDEL', counts, found[at])
    elseif when <= second then
      local some, others = string.match(found[at + 1], '(%d+) (%d+)')
      all_requests, all_retries = all_requests + tonumber(some), all_retries + tonumber(others)
    end
  end
  local most = math.max(least, math.floor(share * all_requests))
  local granted = math.min(wanted, math.max(0, most - all_retries))
  local some, others = string.match(redis.call('HGET', counts, text(second)) or '0 0', '(%d+) (%d+)')
  redis.call('HSET', counts, text(second), text(some + requests) .. ' ' .. text(others + made + granted))
  redis.call('PEXPIRE', counts, text(2000 * WINDOW))
  return granted
end

redis.call('ZREMRANGEBYSCORE', processes, '-inf', text(now))
redis.call('ZADD', processes, text(now + LEASE_MS), process)
redis.call('PEXPIRE', processes, text(2 * LEASE_MS))
local answer = {redis.call('ZCARD', processes), 0}
for at = 8, #ARGV, 6 do
  local key = KEYS[1] .. ':places:' .. ARGV[at]
  local numbers = {}
  for part = 1, 5 do numbers[part] = tonumber(ARGV[at + part]) end
  for _, number in ipairs(claim(key, numbers[1], numbers[2], numbers[3], numbers[4], numbers[5] == 1)) do
    answer[#answer + 1] = number
  end
end
answer[2] = count_retries(tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]))
return answer
"""
)
"""KEYS: the start of the names. ARGV: now, process, the fields of the `RetryClaim`, those of each `PlaceClaim`.

Return the number of processes, the retries, and the fields of each `Grant`. A process's value in the hash of a provider
is the end of its lease, and the fields of `Holder`.
"""

_KEEP = """
redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
redis.call('ZADD', KEYS[2], text(now), ARGV[2])
local old = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', text(now - KEPT_MS), 'LIMIT', 0, 100)
local more = redis.call('ZCARD', KEYS[2]) - #old - MOST
if more > 0 then old = redis.call('ZRANGE', KEYS[2], 0, #old + more - 1) end
for _, response in ipairs(old) do
  redis.call('HDEL', KEYS[1], response, response .. ':taken')
  redis.call('ZREM', KEYS[2], response)
end
redis.call('PEXPIRE', KEYS[1], text(KEPT_MS))
redis.call('PEXPIRE', KEYS[2], text(KEPT_MS))
"""

KEEP_ISSUER = _COMMON + "local KEPT_MS, MOST = ISSUER_MS, ISSUERS_MAX" + _KEEP
"""KEYS: a client's issuers by response, and the responses by their last use. ARGV: now, response, issuer."""

FIND_ISSUER = (
    _COMMON
    + """
local used = tonumber(redis.call('ZSCORE', KEYS[2], ARGV[2]) or 0)
if used <= now - ISSUER_MS then return false end
redis.call('ZADD', KEYS[2], text(now), ARGV[2])
redis.call('PEXPIRE', KEYS[1], text(ISSUER_MS))
redis.call('PEXPIRE', KEYS[2], text(ISSUER_MS))
return redis.call('HGET', KEYS[1], ARGV[2])
"""
)
"""KEYS: as of `KEEP_ISSUER`. ARGV: now, response. Return the issuer, or nothing."""

_RUNS = f"local KEPT_MS, MOST, TAKEN_MS = {RUN_SECONDS * 1000}, {RUNS_MAX}, {TAKEN_SECONDS * 1000}"

KEEP_RUN = _COMMON + _RUNS + _KEEP
"""KEYS: a client's records by response, and the responses by their beginning. ARGV: now, response, record."""

TAKE_RUN = (
    _COMMON
    + _RUNS
    + """
local begun = tonumber(redis.call('ZSCORE', KEYS[2], ARGV[2]) or 0)
local taken = tonumber(redis.call('HGET', KEYS[1], ARGV[2] .. ':taken') or 0)
if begun <= now - KEPT_MS or taken > now - TAKEN_MS then return false end
redis.call('HSET', KEYS[1], ARGV[2] .. ':taken', text(now))
return redis.call('HGET', KEYS[1], ARGV[2])
"""
)
"""KEYS: as of `KEEP_RUN`. ARGV: now, response. Return the record, or nothing."""

END_RUN = """
redis.call('HDEL', KEYS[1], ARGV[2], ARGV[2] .. ':taken')
redis.call('ZREM', KEYS[2], ARGV[2])
"""
"""KEYS, ARGV: as of `TAKE_RUN`."""
