"""The Lua scripts of the Redis store: `limits/decision.py` as Redis runs it, each script in one atomic step.

A property test compares both. Times are those of Redis, so that clocks of gateways may differ; tests pass their own.
Lua's numbers are doubles: all amounts stay below 2^53, and are written with `%.0f` since Lua's own form has 14 digits.
Each script has the keys of one client key only, with its id as the hash tag, so that a cluster can run it.
"""

from __future__ import annotations

from dragoman_server.accounts.limits.claim import KEPT_MS, LEASE_MS
from dragoman_server.accounts.limits.decision import SCALE

STATE_MS = 40 * 86_400_000
"""Time after which counters that were not used are dropped: longer than a month."""
LEASES_MS = 2 * KEPT_MS
"""Time after which the leases of a key that is not used are dropped."""

_COMMON = f"""
local SCALE, LEASE_MS, KEPT_MS, STATE_MS, LEASES_MS = {SCALE}, {LEASE_MS}, {KEPT_MS}, {STATE_MS}, {LEASES_MS}
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local function text(number) return string.format('%.0f', number) end
"""

_CLAIMS = """
local state, at = KEYS[1], 5
local buckets, budgets = {}, {}
for i = 1, tonumber(ARGV[4]) do
  local part = {name = ARGV[at], limit = tonumber(ARGV[at + 1]), amount = tonumber(ARGV[at + 2])}
  at = at + 3
  local full = part.limit * SCALE
  local found = redis.call('HMGET', state, part.name .. ':level', part.name .. ':at')
  local level, filled = tonumber(found[1]), tonumber(found[2])
  if not level then
    part.level, part.at = full, now
  elseif now > filled then
    part.level, part.at = math.min(full, level + (now - filled) * part.limit), now
  else
    part.level, part.at = math.min(full, level), filled
  end
  part.full = full
  buckets[i] = part
end
for i = 1, tonumber(ARGV[at]) do
  local part = {name = ARGV[at + 1], period = ARGV[at + 2], limit = tonumber(ARGV[at + 3]),
                amount = tonumber(ARGV[at + 4])}
  at = at + 4
  local found = redis.call('HMGET', state, part.name .. ':period', part.name .. ':spent')
  part.current, part.spent = found[1], tonumber(found[2])
  if not part.current or part.period > part.current then
    part.current, part.spent = part.period, 0
  end
  budgets[i] = part
end
local function write()
  for _, part in ipairs(buckets) do
    redis.call('HSET', state, part.name .. ':level', text(part.level), part.name .. ':at', text(part.at))
  end
  for _, part in ipairs(budgets) do
    redis.call('HSET', state, part.name .. ':period', part.current, part.name .. ':spent', text(part.spent))
  end
  if #buckets + #budgets > 0 then redis.call('PEXPIRE', state, text(STATE_MS)) end
end
"""
"""Reads the claims from ARGV[4] on, with the state of each. KEYS[1] is the hash of the counters."""

ADMIT = (
    _COMMON
    + _CLAIMS
    + """
local leases, lease, concurrent, rejected = KEYS[2], ARGV[2], tonumber(ARGV[3]), {}
redis.call('ZREMRANGEBYSCORE', leases, '-inf', text(now - KEPT_MS))
local open = redis.call('ZCOUNT', leases, '(' .. text(now), '+inf')
if concurrent > 0 and open >= concurrent then rejected[#rejected + 1] = 'concurrent' end
for _, part in ipairs(buckets) do
  if part.level < math.min(part.amount, part.limit) * SCALE then rejected[#rejected + 1] = part.name end
end
for _, part in ipairs(budgets) do
  if part.spent + part.amount > part.limit then rejected[#rejected + 1] = part.name end
end
if #rejected == 0 then
  open = open + 1
  redis.call('ZADD', leases, text(now + LEASE_MS), lease)
  redis.call('PEXPIRE', leases, text(LEASES_MS))
  for _, part in ipairs(buckets) do part.level = part.level - part.amount * SCALE end
  for _, part in ipairs(budgets) do part.spent = part.spent + part.amount end
  write()
end
local levels, spent = {}, {}
for i, part in ipairs(buckets) do levels[i] = part.level end
for i, part in ipairs(budgets) do spent[i] = part.spent end
return {rejected, open, levels, spent}
"""
)
"""KEYS: counters, leases. ARGV: now, lease, concurrent, claims. Return the fields of `Outcome`."""

SETTLE = (
    _COMMON
    + _CLAIMS
    + """
if ARGV[3] == '1' then
  if redis.call('ZREM', KEYS[2], ARGV[2]) == 0 then return 0 end
elseif not redis.call('SET', KEYS[3], '1', 'NX', 'PX', text(KEPT_MS)) then
  return 0
end
for _, part in ipairs(buckets) do
  part.level = math.min(part.level - part.amount * SCALE, part.full)
end
for _, part in ipairs(budgets) do
  if part.current == part.period then part.spent = math.max(0, part.spent + part.amount) end
end
write()
return 1
"""
)
"""KEYS: counters, leases, mark. ARGV: now, lease, granted, claims. Return 1 if this was the first time."""

RENEW = (
    _COMMON
    + """
for i = 2, #ARGV do redis.call('ZADD', KEYS[1], 'XX', text(now + LEASE_MS), ARGV[i]) end
redis.call('PEXPIRE', KEYS[1], text(LEASES_MS))
"""
)
"""KEYS: leases. ARGV: now, leases."""

PUT_KEY = """
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 and redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('INCR', KEYS[2])
return 1
"""
"""KEYS: the keys, their version. ARGV: id, record, most keys."""

REMOVE_KEY = """
if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('INCR', KEYS[2])
return 1
"""
"""KEYS: the keys, their version. ARGV: id."""

COOL = (
    _COMMON
    + """
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', text(now))
redis.call('ZADD', KEYS[1], 'GT', text(now + tonumber(ARGV[3])), ARGV[2])
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1 - tonumber(ARGV[4]))
"""
)
"""KEYS: cooldowns. ARGV: now, name, milliseconds, most cooldowns."""

COOLDOWNS = (
    _COMMON
    + """
local found = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. text(now), '+inf', 'WITHSCORES')
for i = 2, #found, 2 do found[i] = text(tonumber(found[i]) - now) end
return found
"""
)
"""KEYS: cooldowns. ARGV: now. Return names and milliseconds in turn."""
