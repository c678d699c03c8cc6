"""The Lua scripts of the runs in Redis, each of which runs as one atomic step.

All keys have the hash tag of KEYS[1], so that they are in one slot of a cluster:

    …:run:NAME      hash    host, running, cancelled, reader, until, first, end, head, state, request, attach
    …:events:NAME   stream  entries with the id `end-0`, the number `n` of their events, and the data `d`
    …:leases        zset    the names of the runs by the time at which they lose their host, in milliseconds
    …:open:OWNER    set     the names of the runs of an owner that are open and count for its limit
    …:searched      string  the time of the last search for runs that have lost their host, in milliseconds

NAME is the length of the owner, a colon, the owner, and the id. `until` is the time at which the mark `reader` ends.
"""

from __future__ import annotations

_COMMON = """
local K = KEYS[1]
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function text(number) return string.format('%.0f', number) end
local function owner_of(name)
  local length, rest = string.match(name, '^(%d+):(.*)$')
  return string.sub(rest, 1, tonumber(length))
end
local function close(name)
  call('ZREM', K .. ':leases', name)
  call('SREM', K .. ':open:' .. owner_of(name), name)
end
local function reader_of(fields, at)
  if fields[at] and fields[at] ~= '' and tonumber(fields[at + 1]) > now then return fields[at] end
  return ''
end
"""
BEGIN = (
    _COMMON
    + """
local name, host, lease, ttl, most = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]
local open = K .. ':open:' .. owner_of(name)
if most ~= '' then
  if call('SCARD', open) >= tonumber(most) then return 0 end
  call('SADD', open, name)
  call('PEXPIRE', open, ttl)
end
call('HSET', K .. ':run:' .. name, 'host', host, 'running', '1', 'cancelled', '0', 'reader', '', 'until', '0',
     'first', '0', 'end', '0', 'head', ARGV[6], 'state', ARGV[7], 'request', ARGV[8], 'ttl', ttl)
call('PEXPIRE', K .. ':run:' .. name, ttl)
call('UNLINK', K .. ':events:' .. name)
call('ZADD', K .. ':leases', text(now + lease), name)
return 1
"""
)
"""Arguments: name, host, lease, ttl, most or nothing, head, state, request."""
WRITE = (
    _COMMON
    + """
local host, lease, at, marks = ARGV[1], tonumber(ARGV[2]), 3, {}
while at <= #ARGV do
  local name, first, state, kept, attach = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
  local count = tonumber(ARGV[at + 5])
  at = at + 6
  local run, events = K .. ':run:' .. name, K .. ':events:' .. name
  local had = call('HMGET', run, 'host', 'running', 'first', 'end', 'cancelled', 'reader', 'until', 'ttl')
  if not had[1] then
    marks[#marks + 1] = '?'
  elseif had[1] ~= host then
    marks[#marks + 1] = '-'
  else
    local last = tonumber(had[4])
    for i = at, at + 3 * (count - 1), 3 do
      local stop = tonumber(ARGV[i])
      if stop > last then
        call('XADD', events, ARGV[i] .. '-0', 'n', ARGV[i + 1], 'd', ARGV[i + 2])
        last = stop
      end
    end
    if tonumber(first) > tonumber(had[3]) then
      call('HSET', run, 'first', first)
      call('XTRIM', events, 'MINID', text(tonumber(first) + 1))
    end
    if last > tonumber(had[4]) then
      if had[4] == '0' then call('PEXPIRE', events, had[8]) end
      call('HSET', run, 'end', text(last))
    end
    if state ~= '' then call('HSET', run, 'state', string.sub(state, 2)) end
    if attach ~= '' then call('HSET', run, 'attach', attach) end
    if kept ~= '' then
      call('HSET', run, 'running', '0', 'request', '')
      call('HDEL', run, 'attach')
      call('PEXPIRE', run, kept)
      call('PEXPIRE', events, kept)
      close(name)
    elseif had[2] == '1' then
      call('ZADD', K .. ':leases', text(now + lease), name)
    end
    marks[#marks + 1] = had[5] .. reader_of(had, 6)
  end
  at = at + 3 * count
end
return marks
"""
)
"""Arguments: host, lease; for each run its name, first, nothing or '+' and the state, kept or nothing, what another
process attaches by or nothing, the number of entries; for each of these end, events and data.

Returns `-` for a run of another host, `?` for one that is not there, else `0` or `1` (cancelled) and the reader."""
READ = (
    _COMMON
    + """
local lease, room, most, found = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], {}
for at = 4, #ARGV, 3 do
  local name, number, reader = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2]
  local run = K .. ':run:' .. name
  local had = call('HMGET', run, 'running', 'cancelled', 'first', 'end', 'reader', 'until')
  if not had[1] then
    found[#found + 1] = {}
  else
    if reader ~= '' and had[5] == reader then call('HSET', run, 'until', text(now + lease)) end
    local entries = {}
    if room > 0 and number < tonumber(had[4]) then
      for _, entry in ipairs(call('XRANGE', K .. ':events:' .. name, text(number + 1), '+', 'COUNT', most)) do
        entries[#entries + 1] = string.match(entry[1], '^%d+')
        entries[#entries + 1] = entry[2][2]
        entries[#entries + 1] = entry[2][4]
        room = room - #entry[2][4]
      end
    end
    found[#found + 1] = {had[1], had[2], had[3], had[4], reader_of(had, 5), entries}
  end
end
return found
"""
)
"""Arguments: lease, most bytes, most entries of a run; for each reader the run's name, the number, and its mark."""
CANCEL = (
    _COMMON
    + """
local run = K .. ':run:' .. ARGV[1]
if call('HGET', run, 'running') ~= '1' then return 0 end
call('HSET', run, 'cancelled', '1')
return 1
"""
)
"""Argument: name."""
SET_READER = (
    _COMMON
    + """
local run = K .. ':run:' .. ARGV[1]
local had = call('HGET', run, 'reader')
if not had or (ARGV[3] == '+' and had ~= ARGV[4]) then return 0 end
call('HSET', run, 'reader', ARGV[2], 'until', text(now + tonumber(ARGV[5])))
return 1
"""
)
"""Arguments: name, reader, '+' or '-' before the reader that it must replace, that one, lease."""
TAKE = (
    _COMMON
    + """
local found, lease, searched = {}, tonumber(ARGV[2]), tonumber(call('GET', K .. ':searched') or '0')
if searched > now or now - searched > lease then
  for _, name in ipairs(call('ZRANGE', K .. ':leases', 0, -1)) do
    call('ZADD', K .. ':leases', text(now + lease), name)
  end
end
call('SET', K .. ':searched', text(now))
for _, name in ipairs(call('ZRANGEBYSCORE', K .. ':leases', '-inf', text(now), 'LIMIT', 0, ARGV[3])) do
  local run = K .. ':run:' .. name
  local had = call('HMGET', run, 'cancelled', 'first', 'end', 'head', 'state', 'request', 'attach')
  if not had[1] then
    close(name)
  else
    call('HSET', run, 'host', ARGV[1])
    call('ZADD', K .. ':leases', text(now + lease), name)
    found[#found + 1] = {name, had[1], had[2], had[3], had[4], had[5], had[6], had[7] or ''}
  end
end
return found
"""
)
"""Arguments: host, lease, most runs.

Hosts search more often than a lease lasts. If none has, or the last search is still to come, the clock has jumped, and
its leases mean nothing: all begin again. A run that still has its host is not taken, and one without is soon."""
RELEASE = (
    _COMMON
    + """
local run = K .. ':run:' .. ARGV[2]
local had = call('HMGET', run, 'host', 'running')
if had[1] == ARGV[1] and had[2] == '1' then
  call('HSET', run, 'host', '')
  call('ZADD', K .. ':leases', text(now), ARGV[2])
end
"""
)
"""Arguments: host, name."""
REMOVE = (
    _COMMON
    + """
for _, name in ipairs(ARGV) do
  close(name)
  call('UNLINK', K .. ':run:' .. name, K .. ':events:' .. name)
end
"""
)
"""Arguments: names."""
